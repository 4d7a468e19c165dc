package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// maxPages limits the pages of a list, because a server could send any number.
const maxPages = 1000

// toolFacts holds data from the last list of tools.
type toolFacts struct {
	mu           sync.Mutex
	listed       bool
	headerParams map[string][]mcp.HeaderParam // by tool; most tools have none
	leftOut      []string
}

func (k *toolFacts) set(bindings map[string][]mcp.HeaderParam, leftOut []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listed, k.headerParams, k.leftOut = true, bindings, leftOut
}

// leftOutDefinitions returns the definitions of the last list that were left out, with the reasons.
func (k *toolFacts) leftOutDefinitions() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leftOut
}

func (k *toolFacts) headerParamsOf(tool string) (bindings []mcp.HeaderParam, listed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.headerParams[tool], k.listed
}

// list reads all pages of the server's tools.
func (s *Source) list(ctx context.Context, up *upstream) ([]toolroom.Tool, error) {
	if _, offers := up.session.Server().Capabilities["tools"]; !offers {
		return nil, nil
	}
	items, err := s.readPages(ctx, up, "tools/list", "tools")
	if err != nil {
		return nil, err
	}
	var tools []toolroom.Tool
	var leftOut []string
	bindings := map[string][]mcp.HeaderParam{}
	for _, raw := range items {
		tool, err := readTool(s.o.Namespace, raw)
		if err == nil {
			var found []mcp.HeaderParam
			if found, err = mcp.HeaderParams(tool.InputSchema); len(found) > 0 {
				bindings[tool.ID.Name] = found
			}
		}
		if err != nil {
			s.o.Log.Warn("a tool of an MCP server was left out", "source", s.o.Namespace, "error", err)
			leftOut = append(leftOut, fmt.Sprintf("%.300s", err))
			continue
		}
		tools = append(tools, tool)
	}
	s.tools.set(bindings, leftOut)
	return tools, nil
}

// paramHeaders returns the arguments that a modern server expects in headers. The
// tool's definition names them: if the tools are known from an earlier process only,
// paramHeaders lists them first.
func (s *Source) paramHeaders(ctx context.Context, up *upstream, req *source.Request) (map[string]string, error) {
	if s.o.Command != "" || !up.session.Server().Modern() {
		return nil, nil
	}
	bindings, listed := s.tools.headerParamsOf(req.Tool.Name)
	if !listed {
		if _, err := s.list(ctx, up); err != nil {
			return nil, err
		}
		bindings, _ = s.tools.headerParamsOf(req.Tool.Name)
	}
	return mcp.ParamHeaders(bindings, req.Arguments), nil
}

// refreshDefinitions reports whether the server refused a call because the tool's definition
// has changed, and the new definition has been read.
func (s *Source) refreshDefinitions(ctx context.Context, up *upstream, err error) bool {
	if rpc, ok := errors.AsType[*mcp.Error](err); !ok || rpc.Code != mcp.CodeHeaderMismatch {
		return false
	}
	s.toolsChanged()
	_, err = s.list(ctx, up)
	return err == nil
}

// readTool reads a tool definition.
func readTool(namespace string, raw json.RawMessage) (toolroom.Tool, error) {
	var sent struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Annotations  struct {
			Title       string `json:"title"`
			ReadOnly    *bool  `json:"readOnlyHint"`
			Destructive *bool  `json:"destructiveHint"`
			Idempotent  *bool  `json:"idempotentHint"`
			OpenWorld   *bool  `json:"openWorldHint"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(raw, &sent); err != nil {
		return toolroom.Tool{}, fmt.Errorf("a tool definition of %s cannot be read: %w", namespace, err)
	}
	id := toolroom.ID{Namespace: namespace, Name: sent.Name}
	if err := id.Validate(); err != nil {
		return toolroom.Tool{}, err
	}
	title := cmp.Or(sent.Title, sent.Annotations.Title)
	return toolroom.Tool{
		ID: id, Title: title, Description: sent.Description,
		InputSchema: sent.InputSchema, OutputSchema: sent.OutputSchema,
		Hints: toolroom.Hints{
			ReadOnly: sent.Annotations.ReadOnly, Destructive: sent.Annotations.Destructive,
			Idempotent: sent.Annotations.Idempotent, OpenWorld: sent.Annotations.OpenWorld,
		},
		Source: toolroom.SourceMCP,
		Raw:    raw,
	}, nil
}

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/source"
)

// Skills (SEP-2640, io.modelcontextprotocol/skills) are those of all sources, and
// who may read the resources of a source sees its skills.
const skillsExtension = "io.modelcontextprotocol/skills"

// skillParams are those of skills/list and skills/get.
type skillParams struct {
	mcp.ParamsBase
	URI    string `json:"uri,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// addSkillMethods makes the methods known to the SDK; the middleware answers them
// before it does.
func (s *Server) addSkillMethods() error {
	var errs []error
	for _, method := range []string{"skills/list", "skills/get"} {
		errs = append(errs, mcp.AddReceivingCustomMethod(s.server, method,
			func(context.Context, *mcp.ServerSession, *skillParams) (*wireResult, error) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is not served here"}
			}))
	}
	return errors.Join(errs...)
}

func (s *Server) skills(ctx context.Context, method string, req *mcp.ServerRequest[*skillParams]) (mcp.Result, error) {
	version := speaksVersion(req.Session)
	if version < firstModern {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: method + " is of protocol version " + firstModern}
	}
	s.o.Ready(ctx)
	visible := s.readers(ctx, library.ReadTool)
	said := map[string]any{"ttlMs": listTTL, "cacheScope": "private"}
	if method == "skills/get" {
		entry, err := s.skill(ctx, req.Params.URI, visible)
		if err != nil {
			return nil, err
		}
		said["skill"] = entry
		return (&wireResult{members: members(said)}).of(version), nil
	}
	items := []any{}
	for _, k := range s.o.Library.Skills(visible) {
		items = append(items, skillEntry(k))
	}
	page, next, err := pageOf(items, req.Params.Cursor)
	if err != nil {
		return nil, err
	}
	said["skills"] = page
	if next != "" {
		said["nextCursor"] = next
	}
	return (&wireResult{members: members(said)}).of(version), nil
}

// skill asks the sources that may know a skill, one after the other.
func (s *Server) skill(ctx context.Context, uri string, visible func(string) bool) (any, error) {
	providers, own := s.o.Library.SkillProviders(uri, visible)
	for _, provider := range providers {
		src, _ := s.o.Library.Source(provider)
		from, ok := source.As[source.Skills](src)
		if !ok {
			continue
		}
		found, err := from.Skill(ctx, own)
		switch {
		case err == nil:
			return skillEntry(library.Skill{Skill: found, Provider: provider, Shown: uri}), nil
		case toolroom.CodeOf(err) != toolroom.CodeNotFound && len(providers) == 1:
			return nil, rpcError(toolroom.AsError(err))
		}
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no skill " + uri + " (skills/list has those that are listed)"}
}

// skillEntry is a skill as clients see it: as its source has it, with the URIs
// that are good here.
func skillEntry(k library.Skill) any {
	if !k.Scoped() {
		return k.Raw
	}
	entry, err := readObject(k.Raw)
	if err != nil {
		return k.Raw
	}
	entry.set("uri", k.Shown)
	var files []json.RawMessage
	if json.Unmarshal(entry.raw("resources"), &files) != nil { // "dynamic"
		return entry
	}
	shown := make([]object, 0, len(files))
	for _, raw := range files {
		file, err := readObject(raw)
		if err != nil {
			return entry
		}
		var uri string
		if json.Unmarshal(file.raw("uri"), &uri) == nil {
			file.set("uri", k.ShownFile(uri))
		}
		shown = append(shown, file)
	}
	entry.set("resources", shown)
	return entry
}

// pageOf is a page of a list, and the cursor of the next one.
func pageOf(items []any, cursor string) (page []any, next string, err error) {
	start := 0
	if cursor != "" {
		if start, err = strconv.Atoi(cursor); err != nil || start < 0 || start > len(items) {
			return nil, "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the cursor is not of this list (begin again without one)"}
		}
	}
	end := min(start+listPage, len(items))
	if end < len(items) {
		next = strconv.Itoa(end)
	}
	return items[start:end], next, nil
}

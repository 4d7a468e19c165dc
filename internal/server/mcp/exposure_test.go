package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
)

func auto(t *testing.T) mcpserver.Exposure {
	t.Helper()
	e := direct(t)
	e.Large = &mcpserver.Exposure{Search: true}
	return e
}

// offer replaces the tools of one provider by n tools with descriptions of some bytes.
func (f *fixture) offer(n, size int) {
	f.t.Helper()
	tools := make([]toolroom.Tool, n)
	for i := range tools {
		tools[i] = toolroom.Tool{ID: toolroom.MustParseID(fmt.Sprintf("many:t%d", i)), Source: toolroom.SourceGo, Description: strings.Repeat("word ", size/5)}
	}
	if err := f.runner.Catalog.SetProvider("many", f.funcs, tools); err != nil {
		f.t.Fatal(err)
	}
}

func TestACallerWhoSeesManyToolsSearchesThem(t *testing.T) {
	inEachEra(t, auto(t), func(t *testing.T, f *fixture, version string) {
		s := f.connect(version, nil)
		searching := []string{"search_tools", "describe_tools", "call_tool", "read_result"}
		// Eight tools are there already.
		for _, c := range []struct {
			tools, size int
			search      bool
		}{
			{0, 0, false},
			{32, 10, false},
			{33, 10, true},
			{28, 10, true}, // it does not go back and forth
			{10, 10, false},
			{20, 900, false},
			{200, 10, true},
			{0, 0, false},
		} {
			f.offer(c.tools, c.size)
			got := names(t, f.connect(version, nil)) // a client may keep its list
			if slices.Equal(got, searching) != c.search || !c.search && (got[0] != "read_result" || len(got) != c.tools+9) {
				t.Errorf("with %d tools the list is %v", c.tools, got)
			}
			l := f.server.Listing(toolroom.Identity{})
			if (l.Mode == "search") != c.search || l.Tools != len(got) || l.AllTools != c.tools+8 {
				t.Errorf("with %d tools: %+v, listed %d", c.tools, l, len(got))
			}
		}
		f.offer(100, 10)
		// Both ways of a call work, whatever is listed.
		if r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo__it", Arguments: json.RawMessage(`{"n":1}`)}); err != nil || r.IsError {
			t.Errorf("by its name: %+v, %v", r, err)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "call_tool", Arguments: json.RawMessage(`{"tool":"echo:it","arguments":{"n":1}}`)})
		if err != nil || r.IsError {
			t.Errorf("by call_tool: %+v, %v", r, err)
		}
	})
}

func TestANewExposureIsHeardOfAndCounts(t *testing.T) {
	inEachEra(t, direct(t), func(t *testing.T, f *fixture, version string) {
		changed := make(chan struct{}, 10)
		s := f.connect(version, &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }})
		if version == modern {
			s = nil
		}
		hidden, err := policy.ParsePatterns([]string{"echo:it"})
		if err != nil {
			t.Fatal(err)
		}
		f.server.SetExposure(mcpserver.Exposure{Search: true, Hidden: hidden})
		if s != nil {
			<-changed
		}
		if got := names(t, f.connect(version, nil)); len(got) != 4 {
			t.Errorf("listed are %v", got)
		}
	})
}

func TestALargeDefinitionIsListedSmallAndDescribedWhole(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	members := `"title":{"type":"string","description":"` + strings.Repeat("Long words. ", 100) + `"},"examples":{"type":"string","title":"T","examples":["e"],"x-odd":1}`
	for i := range 30 {
		members += fmt.Sprintf(`,"m%d":{"$ref":"#/$defs/deep"}`, i)
	}
	schema := `{"type":"object","required":["title"],"properties":{` + members + `},"$defs":{"deep":{"type":"object","description":"deep","properties":{"a":{"$ref":"#/$defs/deep"},"b":{"enum":["x","y"]}}},"unused":{"type":"string"}}}`
	tool := toolroom.Tool{ID: toolroom.MustParseID("big:it"), Source: toolroom.SourceOpenAPI, InputSchema: json.RawMessage(schema), Description: strings.Repeat("Says much. ", 500)}
	if err := f.runner.Catalog.SetProvider("big", f.funcs, []toolroom.Tool{tool}); err != nil {
		t.Fatal(err)
	}
	list, err := f.connect(modern, nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == "big__it" })
	text := string(must(t, list.Tools[i]))
	var in struct {
		Properties map[string]map[string]any
		Required   []string
	}
	if err := json.Unmarshal(must(t, list.Tools[i].InputSchema), &in); err != nil {
		t.Fatal(err)
	}
	if len(text) > 6000 || strings.Contains(text, "$defs") || strings.Contains(text, "x-odd") || in.Properties["examples"]["type"] != "string" || in.Properties["examples"]["title"] != nil ||
		len(in.Properties) != 32 || !slices.Equal(in.Required, []string{"title"}) || in.Properties["m3"]["type"] != "object" {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	e, err := f.runner.Catalog.Resolve("big:it", nil)
	if err != nil || string(e.Tool.InputSchema) != schema {
		t.Errorf("the tool itself is %v, %v", e, err)
	}
}

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
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/source"
)

// Models count about four characters of JSON to a token, and never fewer than
// three and a half (OpenAI's o200k_base counts 421 for the four tools): 2,450
// characters are at most 700 tokens.
func TestTheModeCodeTakesUpAtMostSevenHundredTokensOfFiveThousandTools(t *testing.T) {
	inEachEra(t, mcpserver.Exposure{Code: true}, func(t *testing.T, f *fixture, version string) {
		tools := make([]toolroom.Tool, 5000)
		for i := range tools {
			tools[i] = toolroom.Tool{
				ID: toolroom.MustParseID(fmt.Sprintf("source%d:tool%d", i/100, i)), Source: toolroom.SourceGo,
				Description: "Does what has the number " + fmt.Sprint(i), InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
			}
		}
		tools[4321].Description = "Paints a fence."
		if err := f.runner.Catalog.SetProvider("many", f.funcs, tools); err != nil {
			t.Fatal(err)
		}
		s := f.connect(version, nil)
		list, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		size := len(s.InitializeResult().Instructions)
		for _, tool := range list.Tools {
			text, err := json.Marshal(tool)
			if err != nil {
				t.Fatal(err)
			}
			size += len(text)
		}
		if size > 2450 || len(list.Tools) != 4 {
			t.Errorf("what a model is shown of %d tools has %d characters", len(list.Tools), size)
		}
		found, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "search_tools", Arguments: map[string]any{"query": "paint the fence", "limit": 1}})
		if err != nil || !strings.Contains(text(found), "source43:tool4321") {
			t.Errorf("the tool is not found: %v, %v", found, err)
		}
	})
}

func TestASlipInTheNameOfAToolOfTheServerItselfNamesIt(t *testing.T) {
	inEachEra(t, mcpserver.Exposure{Search: true}, func(t *testing.T, f *fixture, version string) {
		s := f.connect(version, nil)
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "cal_tool", Arguments: map[string]any{}})
		if err == nil {
			err = fmt.Errorf("%s", text(r))
		}
		if !strings.Contains(err.Error(), "did you mean call_tool") {
			t.Errorf("call_tool is not named: %v", err)
		}
	})
}

func TestEachSourceHasASearchToolOnRequest(t *testing.T) {
	inEachEra(t, mcpserver.Exposure{Code: true, PerSource: true}, func(t *testing.T, f *fixture, version string) {
		for _, tool := range []toolroom.Tool{
			{ID: toolroom.MustParseID("system:help"), Source: toolroom.SourceBuiltin, Description: "is no source"},
			{ID: toolroom.MustParseID("echo.it:loud"), Source: toolroom.SourceGo, Description: "echoes loudly"},
			{ID: toolroom.MustParseID("echo_it:soft"), Source: toolroom.SourceGo, Description: "has the same name with underscores"},
		} {
			if err := f.runner.Catalog.Register(tool.ID.Namespace, f.funcs, tool); err != nil {
				t.Fatal(err)
			}
		}
		s := f.connect(version, nil)
		got := names(t, s)
		for _, name := range []string{"search_echo_tools", "search_echo_it_tools", "search_file_tools"} {
			if i := slices.Index(got, name); i < 0 || slices.Contains(got[i+1:], name) {
				t.Errorf("%s is not there once: %v", name, got)
			}
		}
		for _, name := range []string{"search_secret_tools", "search_system_tools"} { // denied; builtin
			if slices.Contains(got, name) {
				t.Errorf("%s is there", name)
			}
		}
		search := func(name string, args map[string]any) *mcp.CallToolResult {
			t.Helper()
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
			if err != nil {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}
			}
			return r
		}
		if found := text(search("search_echo_tools", map[string]any{"query": "the tool"})); !strings.Contains(found, "echo:it") || strings.Contains(found, "count:it") {
			t.Errorf("it finds %s", found)
		}
		if r := search("search_echo_tools", map[string]any{"q": "the tool"}); !r.IsError || !strings.Contains(text(r), "query") {
			t.Errorf("a slip gave %s", text(r))
		}
		if r := search("search_secret_tools", map[string]any{"query": "the tool"}); !r.IsError {
			t.Errorf("a source that is denied is searched: %s", text(r))
		}
		f.add("late:it", func(context.Context, *source.Request) (*source.Output, error) { return nil, nil })
		if !slices.Contains(names(t, f.connect(version, nil)), "search_late_tools") {
			t.Error("a new source has none")
		}
	})
}

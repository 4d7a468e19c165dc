package mcp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
)

// A tool that only a page may call is none of the model's, whichever way it searches.
func TestAModelFindsNoToolsThatAreForPagesAlone(t *testing.T) {
	t.Parallel()
	f := serve(t, mcpserver.Exposure{Search: true, PerSource: true})
	tools := []toolroom.Tool{
		{ID: toolroom.MustParseID("chart:draw"), Source: toolroom.SourceMCP, Description: "draw a chart"},
		{
			ID: toolroom.MustParseID("chart:redraw"), Source: toolroom.SourceMCP, Description: "draw a chart again",
			Raw: json.RawMessage(`{"name":"redraw","inputSchema":{"type":"object"},"_meta":{"ui":{"visibility":["app"]}}}`),
		},
	}
	if err := f.runner.Catalog.SetProvider("chart", f.funcs, tools); err != nil {
		t.Fatal(err)
	}
	s := f.connect(modern, nil)
	for _, name := range []string{"search_tools", "search_chart_tools"} {
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"query": "draw a chart"}})
		if err != nil || r.IsError {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		if got := text(r); !strings.Contains(got, "chart:draw") || strings.Contains(got, "chart:redraw") {
			t.Errorf("%s found %s", name, got)
		}
	}
}

func TestACompletionIsOfAPromptOrATemplate(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	m := f.post(t, "ada", "completion/complete", "", `"ref":{"type":"ref/other","name":"x"},"argument":{"name":"a","value":"b"}`, "")
	if e, _ := m["error"].(map[string]any); e["code"] != float64(-32602) {
		t.Errorf("got %v", m)
	}
}

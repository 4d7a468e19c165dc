package mcp_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// The errors of headers name arguments. A caller who may not call the tool must not see them.
func TestHeadersDoNotNameTheArgumentsOfADeniedTool(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	for _, id := range []string{"secret:pay", "open:pay"} {
		tool := toolroom.Tool{
			ID: toolroom.MustParseID(id), Source: toolroom.SourceGo, Description: "pays",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"payroll":{"type":"string","x-mcp-header":"Payroll"}},"required":["payroll"]}`),
		}
		f.funcs.Put(gofunc.Func{Tool: tool, Handler: func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Value: json.RawMessage(`1`)}, nil
		}})
		if err := f.runner.Catalog.Register("go", f.funcs, tool); err != nil {
			t.Fatal(err)
		}
	}
	for name, named := range map[string]bool{"secret__pay": false, "open__pay": true} {
		for _, arguments := range []string{`{"payroll":"x"}`, `{}`} {
			answer := string(must(t, f.post(t, "", "tools/call", name, `"name":"`+name+`","arguments":`+arguments, "")))
			if strings.Contains(answer, "ayroll") != named {
				t.Errorf("%s with %s: %s", name, arguments, answer)
			}
		}
	}
}

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

func TestARoomIsOneToolOfAnAgent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Helper: self})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	type numbers struct{ A, B int }
	add := func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil }
	if err := app.Register(r, "math:add", "Add two numbers.", add); err != nil {
		t.Fatal(err)
	}
	tool := r.AsTool(toolroom.Call{Identity: toolroom.Identity{Agent: "planner"}})
	if !json.Valid(tool.InputSchema) || len(tool.Description) > 1024 || !strings.Contains(tool.Description, "math (1)") {
		t.Errorf("a model is shown %s: %s %s", tool.Name, tool.Description, tool.InputSchema)
	}
	for arguments, want := range map[string]string{
		`{"language":"javascript","code":"console.log('adds'); return await tools.math.add({A: 2, B: 3})"}`: "stdout:\nadds\nvalue:\n5",
		`{"language":"javascript","code":"\nawait tools.math.ad({})"}`:                                      "this program has add",
		`{"language":"cobol","code":"x"}`:                                                                   "error:\ninvalid_arguments: ",
		`no JSON`:                                                                                           "error:\ninvalid_arguments: ",
	} {
		text, result := tool.Call(t.Context(), json.RawMessage(arguments))
		if !strings.Contains(text, want) {
			t.Errorf("%s is told as %q, want %q in it", arguments, text, want)
		}
		if x := result.Execution; x != nil && len(x.Calls) == 1 {
			if inner, err := r.Receipt(t.Context(), x.Calls[0].Call); err != nil || inner.Identity.Agent != "planner" {
				t.Errorf("the call is of %+v, %v", inner, err)
			}
		}
	}
	for i := range 200 {
		if err := app.Register(r, fmt.Sprintf("number%d:add", i), "Add two numbers.", add); err != nil {
			t.Fatal(err)
		}
	}
	if d := r.AsTool(toolroom.Call{}).Description; len(d) > 1024 || !strings.HasSuffix(d, ", …") {
		t.Errorf("of many namespaces it says, in %d bytes: %s", len(d), d)
	}
}

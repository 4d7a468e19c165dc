package stub_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/code/stub"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var tools = []stub.Tool{
	{
		ID: "github:create_issue", Namespace: "github", Name: "create_issue", Global: true, Server: true, Doc: "Create an issue.\n\nIt */ ends \"\"\" nothing \\.",
		Input: json.RawMessage(`{"type": "object", "required": ["title"], "properties": {
			"labels": {"type": "array", "items": {"type": "string"}, "description": "names of\n labels */"},
			"title": {"type": "string"},
			"state": {"enum": ["open", "closed", null, true, 1]},
			"ratio": {"enum": [0.5, "all"]},
			"who": {"$ref": "#/$defs/user"}},
			"$defs": {"user": {"type": "object", "properties": {"login": {"type": "string"}, "boss": {"$ref": "#/$defs/user"}}}}}`),
		Output: json.RawMessage(`{"type": "object", "required": ["number"], "properties": {
			"number": {"type": "integer"}, "a b": {"type": ["string", "null"]}, "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}]}}}`),
	},
	{ID: "github:delete", Namespace: "github", Name: "delete", Global: true},
	{ID: "github:import", Namespace: "github", Name: "import", Global: true, Doc: "Its name is a keyword."},
	{ID: "git:status", Namespace: "git", Name: "status", Command: true, Global: true, Doc: "Show the state."},
	{
		ID: "my-files:read.all", Namespace: "my_files", Name: "read_all", Doc: "Read.",
		Input:  json.RawMessage(`{"type": "object", "properties": {"from": {"type": "integer"}, "kind": {"const": "x"}}}`),
		Output: json.RawMessage(`{"type": "object", "additionalProperties": {"oneOf": [{"type": "boolean"}, {"allOf": [{"type": "object", "properties": {"n": {"type": "number"}}}, {"type": "object"}]}]}}`),
	},
	{ID: "odd:schema", Namespace: "odd", Name: "schema", Input: json.RawMessage(`true`), Output: json.RawMessage(`not JSON`)},
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func TestToolsAreDeclaredInTypeScript(t *testing.T) {
	t.Parallel()
	text := stub.TypeScript(tools)
	golden(t, "testdata/tools.d.ts", text)
	parsesAsTypeScript(t, text)
	parsesAsTypeScript(t, stub.TypeScript(nil))
}

func parsesAsTypeScript(t *testing.T, text string) {
	t.Helper()
	for _, e := range api.Transform(text, api.TransformOptions{Loader: api.LoaderTS}).Errors {
		t.Errorf("esbuild: %s at %+v", e.Text, e.Location)
	}
}

func TestToolsAreDeclaredInPython(t *testing.T) {
	t.Parallel()
	text, awaiting := stub.Python(tools, false), stub.Python(tools, true)
	golden(t, "testdata/tools.py", text)
	golden(t, "testdata/awaits.py", awaiting)
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("python3 is missing: it must judge the stubs")
		}
		t.Skip("python3 is missing")
	}
	for _, text := range []string{text, awaiting, stub.Python(nil, false)} {
		cmd := exec.CommandContext(t.Context(), python, "-c", "import ast, sys; ast.parse(sys.stdin.read())")
		cmd.Stdin = strings.NewReader(text)
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, said)
		}
	}
}

func TestASchemaThatGrowsWithoutEndIsTruncated(t *testing.T) {
	t.Parallel()
	var properties []string
	for i := range 300 {
		properties = append(properties, fmt.Sprintf(`"p%d": {"$ref": "#"}`, i))
	}
	one := []stub.Tool{{ID: "a:b", Namespace: "a", Name: "b", Input: json.RawMessage(`{"type": "object", "properties": {` + strings.Join(properties, ",") + `}}`)}}
	for _, text := range []string{stub.TypeScript(one), stub.Python(one, false)} {
		if len(text) > 10<<20 {
			t.Errorf("the declarations have %d bytes", len(text))
		}
	}
}

// Schemas come from untrusted sources.
func FuzzAnySchemaGivesDeclarationsThatParse(f *testing.F) {
	for _, t := range tools {
		f.Add(string(t.Input), t.Doc)
		f.Add(string(t.Output), t.Doc)
	}
	f.Fuzz(func(t *testing.T, schema, doc string) {
		one := []stub.Tool{{ID: "a:b", Namespace: "a", Name: "b", Global: true, Doc: doc, Input: json.RawMessage(schema), Output: json.RawMessage(schema)}}
		parsesAsTypeScript(t, stub.TypeScript(one))
		stub.Python(one, true)
	})
}

func TestALongEnumIsDeclaredAtOnce(t *testing.T) {
	t.Parallel()
	values := make([]string, 100_000)
	for i := range values {
		values[i] = fmt.Sprintf("%06d", i)
	}
	schema, err := json.Marshal(map[string]any{"enum": values})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string, 1)
	go func() {
		done <- stub.TypeScript([]stub.Tool{{ID: "a:b", Namespace: "a", Name: "b", Output: schema}})
	}()
	select {
	case text := <-done:
		if !strings.Contains(text, `| "099999"`) {
			t.Error("the last value is missing")
		}
	case <-time.After(5 * time.Second): // it takes milliseconds, and took half a minute
		t.Error("it takes too long")
	}
}

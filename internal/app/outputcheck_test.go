package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// A program gets the value; the warning goes to whoever reads its log and its result.
func TestAProgramGetsAValueThatBreaksItsSchemaAndItsCallerTheWarning(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"id": 7}`))
	}))
	t.Cleanup(upstream.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, output := range []string{"", "strict", "warn", "off"} {
		t.Run("output "+output, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "toolroom.yaml")
			text := fmt.Sprintf(`
egress: {allow: [127.0.0.1]}
sources:
  pets:
    output: %q
    http:
      base_url: %s
      tools:
        - name: get
          output_schema: {type: object, required: [name], properties: {name: {type: string}}}
`, output, upstream.URL)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			r := open(t, app.Options{Home: t.TempDir(), Helper: self, ConfigFile: file})
			if err := r.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			logs := 0
			var result *toolroom.Result
			call, err := r.ExecuteCall(toolroom.Call{}, toolroom.Program{Language: "javascript", Code: `return (await tools.pets.get({})).id`})
			if err != nil {
				t.Fatal(err)
			}
			for e := range r.Stream(t.Context(), call) {
				if e.Kind == toolroom.EventLog && e.Log.Level == "warning" && strings.Contains(e.Log.Message, "output schema") {
					logs++
				}
				if e.Final() && e.Tool == "code:execute" {
					result = e.Result
				}
			}
			if output == "strict" {
				if result.Error == nil || !strings.Contains(result.Error.Message, "output schema") {
					t.Errorf("got %+v", result)
				}
				return
			}
			want := 1
			if output == "off" {
				want = 0
			}
			if result.Error != nil || result.Execution == nil || string(result.Value) != "7" || logs != want || len(result.Execution.Calls[0].Warnings) != want {
				t.Errorf("%d log lines, %+v, %+v", logs, result, result.Error)
			}
		})
	}
}

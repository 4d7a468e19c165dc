package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/source"
)

func says(text string) func(context.Context, struct{}) (string, error) {
	return func(context.Context, struct{}) (string, error) { return text, nil }
}

func openRoom(t *testing.T, o app.Options) *app.App {
	t.Helper()
	r, err := app.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func wantValue(t *testing.T, r *app.App, id, want string) {
	t.Helper()
	if result := r.Run(t.Context(), toolroom.Call{Tool: id}); result.Error != nil || string(result.Value) != want {
		t.Errorf("%s: %s, %v, want %s", id, result.Value, result.Error, want)
	}
}

func TestARefusedRegistrationLeavesTheToolThatWasThere(t *testing.T) {
	t.Parallel()
	r := openRoom(t, app.Options{})
	if err := app.Register(r, "math:add", "One.", says("one")); err != nil {
		t.Fatal(err)
	}
	bad := toolroom.Tool{ID: toolroom.MustParseID("math:add"), Examples: []toolroom.Example{{Arguments: json.RawMessage(`[1]`)}}}
	for name, err := range map[string]error{
		"Register":      app.Register(r, "math:add", "Two.", says("two")),
		"a version":     app.Register(r, "math:add@2", "Two.", says("two")),
		"RegisterTool":  app.RegisterTool(r, bad, says("two")),
		"ReplaceTool":   app.ReplaceTool(r, bad, says("two")),
		"a bad schema":  app.ReplaceTool(r, toolroom.Tool{ID: bad.ID, InputSchema: json.RawMessage(`{"type":`)}, says("two")),
		"a taken alias": app.ReplaceTool(r, toolroom.Tool{ID: bad.ID, Aliases: []string{"system:info"}}, says("two")),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
		wantValue(t, r, "math:add", `"one"`)
	}
	if err := app.Register(r, "math:add", "Two.", says("two")); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("a second registration: %v, want conflict", err)
	}
	if err := app.Replace(r, "math:add", "Two.", says("two")); err != nil {
		t.Fatal(err)
	}
	wantValue(t, r, "math:add", `"two"`)
	if !r.Unregister("math:add") || r.Run(t.Context(), toolroom.Call{Tool: "math:add"}).Error == nil {
		t.Error("the tool is still there")
	}
	if err := app.Replace(r, "math:add", "Three.", says("three")); err != nil {
		t.Fatal(err)
	}
	wantValue(t, r, "math:add", `"three"`)
}

func TestNothingStandsInForABuiltin(t *testing.T) {
	t.Parallel()
	r := openRoom(t, app.Options{})
	for _, id := range []string{"system:info", "system:other", "code:execute", "code:run", "Code:execute", "tools:x", "mcp:x", "cli:x", "print:x", "file:read", "system:info@2"} {
		for name, err := range map[string]error{
			"Register":    app.Register(r, id, "Mine.", says("mine")),
			"Replace":     app.Replace(r, id, "Mine.", says("mine")),
			"ReplaceTool": app.ReplaceTool(r, toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceBuiltin}, says("mine")),
		} {
			if toolroom.CodeOf(err) != toolroom.CodeConflict {
				t.Errorf("%s of %s: %v, want conflict", name, id, err)
			}
		}
	}
	if r.Unregister("system:info") || r.Unregister("code:execute") {
		t.Error("a builtin was taken out")
	}
	for _, name := range []string{"code", "Code", "system", "tools", "memory", "console"} {
		if err := r.AddSource(name, stray{}, app.SourceOptions{}); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("AddSource %s: %v, want conflict", name, err)
		}
	}
	// A source that names itself well and lists tools of a builtin.
	if err := r.AddSource("stray", stray{}, app.SourceOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context(), "stray"); err != nil {
		t.Fatal(err)
	}
	wantValue(t, r, "stray:ok", `"stray"`)
	result := r.Run(t.Context(), toolroom.Call{Tool: "system:info"})
	if result.Error != nil || !strings.Contains(string(result.Value), `"os"`) {
		t.Errorf("system:info gives %s, %v", result.Value, result.Error)
	}
	result = r.Run(t.Context(), toolroom.Call{Tool: "code:execute", Arguments: json.RawMessage(`{"language": "javascript", "code": "return 1"}`)})
	if string(result.Value) == `"stray"` {
		t.Error("a program went to a foreign source")
	}
}

// stray lists tools of builtin namespaces besides its own.
type stray struct{}

func (stray) Tools(context.Context) ([]toolroom.Tool, error) {
	return []toolroom.Tool{
		{ID: toolroom.MustParseID("stray:ok")},
		{ID: toolroom.MustParseID("system:info"), Source: toolroom.SourceBuiltin},
		{ID: toolroom.MustParseID("code:execute"), Source: toolroom.SourceBuiltin},
		{ID: toolroom.MustParseID("stray:alias"), Aliases: []string{"code:execute"}},
	}, nil
}

func (stray) Call(context.Context, *source.Request) (*source.Output, error) {
	return &source.Output{Value: json.RawMessage(`"stray"`)}, nil
}

func (stray) Close() error { return nil }

func TestASourceInAReservedNamespaceIsAMistakeOfTheConfig(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"code", "Code", "tools", "memory", "JSON"} {
		path := filepath.Join(t.TempDir(), "toolroom.yaml")
		if err := os.WriteFile(path, []byte("sources: {"+name+": {mcp: {command: x}}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := app.Open(t.Context(), app.Options{ConfigFile: path})
		if err == nil {
			_ = r.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "is reserved") || !strings.Contains(err.Error(), name+"-server") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSeveralSourcesOfOneToolAreLoggedOnceAndDescribed(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := openRoom(t, app.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := r.AddSource("stray", stray{}, app.SourceOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context(), "stray"); err != nil {
		t.Fatal(err)
	}
	if err := app.Register(r, "stray:ok", "Mine.", says("mine")); err != nil {
		t.Fatal(err)
	}
	if err := app.Replace(r, "stray:ok", "Mine again.", says("mine")); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "several sources offer the same tool"); n != 1 {
		t.Errorf("logged %d times: %s", n, &log)
	}
	d, err := r.Describe(t.Context(), toolroom.Identity{}, "stray:ok", "", "")
	if err != nil || len(d.Providers) != 2 || d.ServedBy == "" {
		t.Errorf("%+v, %v", d, err)
	}
}

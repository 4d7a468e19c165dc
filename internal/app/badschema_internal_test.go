package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/source"
)

// oddSource is a server whose tools have schemas that cannot be used.
type oddSource struct{ openSource }

var oddSchemas = map[string]string{
	"dialect":   `{"$schema":"https://example.com/of-their-own","type":"object"}`,
	"elsewhere": `{"type":"object","properties":{"a":{"$ref":"https://example.com/a.json"}}}`,
	"no_args":   `{"type":"string"}`,
	"no_type":   `{"type":"objekt"}`,
}

func (s *oddSource) Tools(context.Context) ([]toolroom.Tool, error) {
	list := []toolroom.Tool{{ID: toolroom.ID{Namespace: "odd", Name: "good"}, Source: toolroom.SourceMCP}}
	for name, text := range oddSchemas {
		list = append(list, toolroom.Tool{ID: toolroom.ID{Namespace: "odd", Name: name}, Source: toolroom.SourceMCP, InputSchema: json.RawMessage(text)})
	}
	return list, nil
}

// What an owner registers is refused at once. Of a server from outside the tool stays, says what
// is wrong with it, and is not called with arguments that nothing has checked.
func TestASchemaFromOutsideThatCannotBeUsedIsNoted(t *testing.T) {
	t.Parallel()
	a, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var open atomic.Int64
	a.newSource = func(string, config.Source, *config.Config) (source.Source, error) {
		return &oddSource{openSource{open: &open}}, nil
	}
	c := config.Default()
	c.Sources = map[string]config.Source{"odd": {}}
	if err := a.Reload(c); err != nil {
		t.Fatal(err)
	}
	tested, err := a.TestSource(t.Context(), "odd")
	if err != nil || tested.Error != "" || tested.Tools != len(oddSchemas)+1 || len(tested.Problems) != len(oddSchemas) {
		t.Errorf("%+v, %v", tested, err)
	}
	for name := range oddSchemas {
		if !strings.Contains(strings.Join(tested.Problems, "\n"), "odd:"+name+": the input schema cannot be used: ") {
			t.Errorf("no problem of %s in %q", name, tested.Problems)
		}
		described, err := a.Describe(t.Context(), toolroom.Identity{}, "odd:"+name, toolroom.LevelSchema, toolroom.FormMCP)
		if err != nil || !strings.HasPrefix(described.Problem, "the input schema cannot be used: ") {
			t.Errorf("%s is described as %+v, %v", name, described, err)
		}
		if r := a.Run(t.Context(), toolroom.Call{Tool: "odd:" + name}); r.OK() || r.Effects != toolroom.EffectsNone {
			t.Errorf("%s: %s, effects %s", name, r.Status, r.Effects)
		}
	}
	if r := a.Run(t.Context(), toolroom.Call{Tool: "odd:good"}); !r.OK() {
		t.Errorf("the tool beside them: %v", r.Error)
	}
}

func TestATestedSourceNamesTheCredentialsThatItLacks(t *testing.T) {
	t.Parallel()
	spec := filepath.Join(t.TempDir(), "spec.json")
	if err := os.WriteFile(spec, []byte(`{"openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "http://127.0.0.1:9"}],
		"components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}, "security": [{"key": []}],
		"paths": {"/a": {"get": {"operationId": "getA", "deprecated": true}, "put": {"operationId": "putA"}}, "/b": {"get": {"operationId": "getB", "security": []}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		auth, headers map[string]string
		want          []string
	}{
		"none": {nil, nil, []string{"2 of 3 tools need credentials that are not configured: set auth of the source for key."}},
		"one":  {map[string]string{"key": "secret"}, nil, nil},

		"a header that is the credential": {nil, map[string]string{"x-key": "secret"}, nil},
		"another header":                  {nil, map[string]string{"X-Team": "a"}, []string{"2 of 3 tools need credentials that are not configured: set auth of the source for key."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(t.Context(), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			c := config.Default()
			c.Sources = map[string]config.Source{"api": {OpenAPI: &config.OpenAPI{Spec: spec, Auth: test.auth, Headers: test.headers}}}
			if err := a.Reload(c); err != nil {
				t.Fatal(err)
			}
			tested, err := a.TestSource(t.Context(), "api")
			if err != nil || !slices.Equal(tested.Problems, test.want) {
				t.Errorf("%+v, %v", tested, err)
			}
		})
	}
}

package app

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/source/httpapi"
)

// Every setting that an HTTP source has can be set in the config.
func TestEverySettingOfAnHTTPSourceIsAKeyOfTheConfig(t *testing.T) {
	t.Parallel()
	c, err := config.Parse(filepath.Join(t.TempDir(), "toolroom.yaml"), []byte(`
sources:
  api:
    description: all keys
    timeout: 10s
    http:
      base_url: http://127.0.0.1:1
      form: path
      headers: {X-A: b}
      max_response: 1000
      redirect_hosts: [files.example.com]
      tools:
        - name: one
          title: One
          description: The first.
          input_schema: {type: object, properties: {a: {type: string}}}
          output_schema: {type: object}
          method: POST
          path: /one
          query: {q: "{a}"}
          headers: {X-C: d}
          body: {a: "{a}"}
          result: /data
          map: "value.items"
          hints: {read_only: true, destructive: false, idempotent: true, open_world: true}
          guarantee: keyed
          tags: [word]
          timeout: 5s
          sensitive: [/a]
`))
	if err != nil {
		t.Fatal(err)
	}
	got := httpConfig(c.Sources["api"])
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	got.Title = "from the namespace" // for Go programs only
	everySet(t, reflect.ValueOf(got), "")
	if got.Tools[0].Body != httpapi.BodyTemplate {
		t.Errorf("body: %s", got.Tools[0].Body)
	}
}

// everySet reports fields below v that have their zero value.
func everySet(t *testing.T, v reflect.Value, at string) {
	t.Helper()
	switch {
	case v.IsZero():
		t.Errorf("%s has no key in the config", at)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			everySet(t, v.Field(i), at+"."+v.Type().Field(i).Name)
		}
	case v.Kind() == reflect.Slice:
		everySet(t, v.Index(0), at+"[0]")
	}
}

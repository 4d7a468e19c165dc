package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// Every key of the config is named, in backquotes, in docs/config.md or in a
// file of docs that it links to.
func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "docs")
	text, err := os.ReadFile(filepath.Join(docs, "config.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`[^`]+`").FindAllString(string(text), -1) {
		// `a.b` names a and b.
		for _, word := range regexp.MustCompile(`[a-z0-9_]+`).FindAllString(quoted, -1) {
			named[word] = true
		}
	}
	for _, key := range keysOf(reflect.TypeFor[Config](), "", map[reflect.Type]bool{}) {
		last := key[strings.LastIndexByte(key, '.')+1:]
		if !named[last] {
			t.Errorf("docs/config.md does not name %s", key)
		}
	}
	for _, section := range keysOf(reflect.TypeFor[Config](), "", nil) {
		if !regexp.MustCompile("`"+section+"[`.]").Match(text) && section != "sources" {
			t.Errorf("docs/config.md has no line for the section %s", section)
		}
	}
}

// keysOf lists the keys of a section and, where seen is given, of those below.
func keysOf(t reflect.Type, above string, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] {
		return nil
	}
	var keys []string
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		at := above
		switch {
		case options == "inline":
		case name == "" || name == "-":
			continue
		default:
			at = above + name + "."
			keys = append(keys, above+name)
		}
		if seen != nil {
			keys = append(keys, keysOf(t.Field(i).Type, at, seen)...)
		}
	}
	return keys
}

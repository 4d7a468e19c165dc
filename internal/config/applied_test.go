package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every key either counts at once or is named as one that needs a restart; both lists are
// whole, so that a new key must be decided.
func TestEachKeyCountsAtOnceOrIsNamed(t *testing.T) {
	t.Parallel()
	atOnce := []string{
		"approvals", "builtin", "cli", "code.egress", "egress", "expose", "limits", "policy", "receipts.keep", "receipts.must",
		"releases.conflict", "releases.environments", "releases.gates", "releases.packages", "releases.rollback", "search", "sets", "secrets.scopes", "secrets.stores", "secrets.ttl", "secrets.variables", "sources", "tools",
	}
	for _, section := range keysOf(reflect.TypeFor[Config](), "", nil) {
		field := fieldOf(reflect.TypeFor[Config](), section)
		keys := []string{section}
		if field.Type.Kind() == reflect.Struct {
			keys = keysOf(field.Type, section+".", nil)
		}
		for _, key := range keys {
			restarts := slices.Contains(restartKeys, key) || slices.Contains(restartSections, section) && !slices.Contains(liveKeys, key)
			applies := slices.Contains(atOnce, key) || slices.Contains(atOnce, section)
			if restarts == applies {
				t.Errorf("%s: counts at once %v, needs a restart %v", key, applies, restarts)
			}
		}
	}
}

func fieldOf(t reflect.Type, key string) reflect.StructField {
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name == key {
			return t.Field(i)
		}
	}
	panic(key)
}

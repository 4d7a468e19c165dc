package server

import (
	"reflect"
	"testing"

	"github.com/toolroom/toolroom/internal/config"
)

// Each key of expose changes what a reload gives the MCP server.
func TestEachKeyOfExposeCountsAfterAReload(t *testing.T) {
	t.Parallel()
	base := config.Default()
	base.Expose.Mode = "search"
	before, err := exposures(base)
	if err != nil {
		t.Fatal(err)
	}
	for i := range reflect.TypeFor[config.Expose]().NumField() {
		c := *base
		name := reflect.TypeFor[config.Expose]().Field(i).Name
		switch f := reflect.ValueOf(&c.Expose).Elem().Field(i); {
		case name == "Mode":
			f.SetString("direct")
		case name == "Names":
			f.SetString("plain")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		default:
			f.Set(reflect.ValueOf([]string{"a.*"}))
		}
		if keys := c.NeedsRestart(base); len(keys) > 0 {
			t.Errorf("%s needs a restart", name)
		}
		if after, err := exposures(&c); err != nil || reflect.DeepEqual(before, after) {
			t.Errorf("%s changes nothing: %v", name, err)
		}
	}
}

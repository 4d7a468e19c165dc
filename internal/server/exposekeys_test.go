package server

import (
	"reflect"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
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

func TestExposedToolsMayBeNamedByGroups(t *testing.T) {
	t.Parallel()
	c, err := config.Parse("t.yaml", []byte(`
tools: {groups: {mine: ["notes.*"]}}
expose: {hidden: ["group:mine"]}
sets: {a: {expose: {hidden: ["group:fs"]}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	x, err := exposures(c)
	if err != nil {
		t.Fatal(err)
	}
	notes := &toolroom.Tool{ID: toolroom.ID{Namespace: "notes", Name: "read"}}
	file := &toolroom.Tool{ID: toolroom.ID{Namespace: "file", Name: "read"}}
	if !policy.MatchesTool(x.Hidden, notes) || policy.MatchesTool(x.Hidden, file) {
		t.Error("not exactly the tools of the group are hidden from all")
	}
	if set := x.Sets["a"]; !policy.MatchesTool(set.Hidden, notes) || !policy.MatchesTool(set.Hidden, file) {
		t.Error("the set does not hide the tools of both groups")
	}
}

package config

import (
	"reflect"
	"slices"
	"strings"
)

// restartSections and restartKeys are the sections and keys that take effect only after a
// restart. liveKeys are the keys of these sections that take effect at once.
var (
	restartSections = []string{"server", "store", "code", "receipts", "results", "artifacts"}
	restartKeys     = []string{"secrets.key", "releases.proposals"}
	liveKeys        = []string{"code.egress", "receipts.keep", "receipts.must"}
)

// Changed returns the keys in which c differs from before, as section.key, in the order of
// the file's sections.
func (c *Config) Changed(before *Config) []string {
	var keys []string
	a, b := reflect.ValueOf(c).Elem(), reflect.ValueOf(before).Elem()
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		keys = append(keys, changed(name, a.Field(i), b.Field(i))...)
	}
	return keys
}

// changed returns the keys of a section, or the names of a map, that differ.
func changed(section string, a, b reflect.Value) []string {
	differ := func(a, b reflect.Value) bool {
		if a.IsValid() != b.IsValid() {
			return true
		}
		return a.IsValid() && !reflect.DeepEqual(a.Interface(), b.Interface())
	}
	var keys []string
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			key, option, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
			if option == "inline" {
				keys = append(keys, changed(section, a.Field(i), b.Field(i))...)
			} else if key != "" && key != "-" && differ(a.Field(i), b.Field(i)) {
				keys = append(keys, section+"."+key)
			}
		}
	case reflect.Map:
		for _, m := range []reflect.Value{a, b} {
			for _, name := range m.MapKeys() {
				key := section + "." + name.String()
				if differ(a.MapIndex(name), b.MapIndex(name)) && !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		slices.Sort(keys)
	default:
		if differ(a, b) {
			keys = append(keys, section)
		}
	}
	return keys
}

// NeedsRestart returns the keys that take effect only after a restart and in which c differs
// from started, the config that a room was opened with. They are in the order of the file's
// sections.
func (c *Config) NeedsRestart(started *Config) []string {
	return slices.DeleteFunc(c.Changed(started), func(key string) bool {
		section, _, _ := strings.Cut(key, ".")
		return !slices.Contains(restartKeys, key) && (!slices.Contains(restartSections, section) || slices.Contains(liveKeys, key))
	})
}

package config

import (
	"reflect"
	"strings"
)

// NeedsRestart returns the keys in which c differs from started, with which a room was
// opened, and which count only from the next start on; in the order of the file's sections.
func (c *Config) NeedsRestart(started *Config) []string {
	var keys []string
	section := func(name string, now, then any, applied ...string) {
		a, b := reflect.ValueOf(now), reflect.ValueOf(then)
	fields:
		for i := range a.NumField() {
			key, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("yaml"), ",")
			for _, one := range applied {
				if one == key {
					continue fields
				}
			}
			if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
				keys = append(keys, name+"."+key)
			}
		}
	}
	section("server", c.Server, started.Server)
	section("store", c.Store, started.Store)
	section("code", c.Code, started.Code, "egress")
	section("receipts", c.Receipts, started.Receipts, "keep", "must")
	section("results", c.Results, started.Results)
	section("artifacts", c.Artifacts, started.Artifacts)
	if !reflect.DeepEqual(c.Secrets.Key, started.Secrets.Key) {
		keys = append(keys, "secrets.key")
	}
	return keys
}

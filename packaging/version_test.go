package main

import "testing"

func TestAVersionHasTheFormOfEachPackageSystem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, semver, pep440 string }{
		{"v1.2.3", "1.2.3", "1.2.3"},
		{"1.2.3-rc.1", "1.2.3-rc.1", "1.2.3rc1"},
		{"1.2.3-alpha.4", "1.2.3-alpha.4", "1.2.3a4"},
		{"1.2.3-beta2", "1.2.3-beta2", "1.2.3b2"},
		{"v0.1.0-5-g1a2b3c4", "0.1.0-5-g1a2b3c4", "0.1.0.dev0+5.g1a2b3c4"},
		{"940e5a6-dirty", "0.0.0-dev+940e5a6.dirty", "0.0.0.dev0+940e5a6.dirty"},
		{"", "0.0.0-dev", "0.0.0.dev0"},
	} {
		v := parseVersion(c.text)
		if v.semver != c.semver || v.pep440() != c.pep440 {
			t.Errorf("%q: %s and %s, want %s and %s", c.text, v.semver, v.pep440(), c.semver, c.pep440)
		}
	}
}

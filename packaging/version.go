package main

import (
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// A version converts a version to the forms of the package systems.
type version struct {
	semver string // 1.2.3-rc.1+abc, for npm and the programs
}

var unusual = regexp.MustCompile(`[^0-9A-Za-z.]+`)

// parseVersion parses a version. A text that is not a version, such as a commit, becomes a
// development version that sorts before all releases.
func parseVersion(text string) version {
	text = strings.TrimPrefix(text, "v")
	if semver.IsValid("v" + text) {
		return version{text}
	}
	if text = strings.Trim(unusual.ReplaceAllString(text, "."), "."); text == "" {
		return version{"0.0.0-dev"}
	}
	return version{"0.0.0-dev+" + text}
}

func (v version) parts() (base, pre, build string) {
	base, build, _ = strings.Cut(v.semver, "+")
	base, pre, _ = strings.Cut(base, "-")
	return base, pre, build
}

var prerelease = regexp.MustCompile(`^(a|alpha|b|beta|rc)\.?([0-9]+)$`)

// pep440 returns the version for Python. See
// https://packaging.python.org/en/latest/specifications/version-specifiers/.
func (v version) pep440() string {
	base, pre, build := v.parts()
	if found := prerelease.FindStringSubmatch(pre); found != nil {
		base += found[1][:1] + found[2]
		base = strings.Replace(base, "r"+found[2], "rc"+found[2], 1)
	} else if pre != "" {
		base += ".dev0"
		build = strings.Trim(strings.TrimPrefix(pre, "dev")+"."+build, ".")
	}
	if build != "" {
		base += "+" + strings.ToLower(unusual.ReplaceAllString(build, "."))
	}
	return base
}

package artifact

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name, in bytes: file systems take 255, and a caller
// may want to add to it.
const maxName = 120

// safeName makes a name that can be shown and saved under on any system: the
// last part of a path, without characters that mean something to shells or
// file systems, or that cannot be seen. Empty stays empty.
func safeName(name string) string {
	name = strings.ToValidUTF8(name, "_")
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || strings.ContainsRune(" ._-+()@,", r) {
			return r
		}
		return '_'
	}, name)
	name = strings.Trim(name, " ")
	name = strings.TrimRight(name, ". ")
	// A leading dot hides a file, a leading dash makes it look like an option.
	if trimmed := strings.TrimLeft(name, ".-~ "); trimmed != name {
		name = "_" + trimmed
	}
	if isDeviceName(name) {
		name = "_" + name
	}
	return shorten(name)
}

// isDeviceName reports names that Windows keeps for devices, with any suffix.
// See https://learn.microsoft.com/windows/win32/fileio/naming-a-file.
func isDeviceName(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch stem = strings.TrimRight(stem, " "); stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// shorten keeps the suffix, which says what a file is.
func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	suffix := path.Ext(name)
	if len(suffix) > 16 {
		suffix = ""
	}
	cut := maxName - len(suffix)
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + suffix
}

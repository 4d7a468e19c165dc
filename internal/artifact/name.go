package artifact

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the maximum length of a name, in bytes. File systems permit 255; the rest is for
// additions of callers.
const maxName = 120

// safeName returns a name that any system can show and use for a file: the last part of a path,
// without characters that are special to shells or file systems, or invisible. An empty name
// stays empty.
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

// isDeviceName reports whether Windows reserves the name, with any suffix, for a device.
// See https://learn.microsoft.com/windows/win32/fileio/naming-a-file.
func isDeviceName(name string) bool {
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch stem = strings.TrimRight(stem, " "); stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
}

// shorten truncates a name to maxName bytes. It keeps the suffix, which tells the type of the
// file.
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

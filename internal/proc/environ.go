package proc

import (
	"maps"
	"slices"
	"strings"
)

// inherited are the variables that a child gets from its parent: what programs
// need to find their files and speak the user's language, and nothing that may
// be a secret.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SystemRoot", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC", "TEMP", "TMP"}

// Environ is the environment of a child: what may be inherited from base, and
// extra on top of it.
func Environ(base []string, extra map[string]string) []string {
	var env []string
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		if _, overridden := extra[name]; overridden {
			continue
		}
		if slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") {
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		env = append(env, name+"="+extra[name])
	}
	return env
}

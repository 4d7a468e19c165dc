package proc

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// inherited are the variables that a child gets from its parent: what programs
// need to find their files and speak the user's language, and nothing that may
// be a secret.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SystemRoot", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC", "TEMP", "TMP"}

// depthVariable counts how many Toolrooms stand above a process.
const depthVariable = "TOOLROOM_DEPTH"

// Depth is how many Toolrooms stand above the process whose environment this
// is: one whose sources start it again would do so for ever.
func Depth(environ []string) int {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, depthVariable+"="); ok {
			depth, _ := strconv.Atoi(value)
			return depth
		}
	}
	return 0
}

// Environ is the environment of a child: what may be inherited from base, and
// extra on top of it.
func Environ(base []string, extra map[string]string) []string {
	env := []string{depthVariable + "=" + strconv.Itoa(Depth(base)+1)}
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

package proc

import (
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// inherited are the variables that a child inherits: programs need them to find their
// files and the user's language, and none of them contains a secret.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "SystemRoot", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC", "TEMP", "TMP"}

// inherits reports whether a child inherits a variable. On Windows the case of names does not
// count, and its own are Path and ComSpec.
func inherits(name, system string) bool {
	if system == "windows" {
		return slices.ContainsFunc(inherited, func(known string) bool { return strings.EqualFold(known, name) })
	}
	return slices.Contains(inherited, name)
}

// depthVariable is the number of Toolroom processes above a process.
const depthVariable = "TOOLROOM_DEPTH"

// Depth returns the number of Toolroom processes above the process with this environment.
// It detects a Toolroom whose sources start Toolroom again, without end.
func Depth(environ []string) int {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, depthVariable+"="); ok {
			depth, _ := strconv.Atoi(value)
			return depth
		}
	}
	return 0
}

// Environ returns the environment of a child: the variables of base that may be inherited,
// overridden by extra.
func Environ(base []string, extra map[string]string) []string {
	env := []string{depthVariable + "=" + strconv.Itoa(Depth(base)+1)}
	for _, entry := range base {
		name, _, _ := strings.Cut(entry, "=")
		if _, overridden := extra[name]; overridden {
			continue
		}
		if inherits(name, runtime.GOOS) || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") {
			env = append(env, entry)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		env = append(env, name+"="+extra[name])
	}
	return env
}

// proxyVariables are the variables in which programs look for their proxy.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// WithoutProxy returns an environment without the variables that configure proxies.
func WithoutProxy(env []string) []string {
	var out []string
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY":
		default:
			out = append(out, entry)
		}
	}
	return out
}

// ProxyEnviron returns the environment of a program that can reach others only through the
// proxy at url. It reaches its own loopback without the proxy.
func ProxyEnviron(url string) []string {
	// Node reads these variables from version 24 on, if NODE_USE_ENV_PROXY is set.
	env := []string{"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1"}
	for _, name := range proxyVariables {
		env = append(env, name+"="+url)
	}
	return env
}

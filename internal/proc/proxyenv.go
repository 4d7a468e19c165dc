package proc

import "strings"

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

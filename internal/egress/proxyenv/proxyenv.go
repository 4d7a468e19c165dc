// Package proxyenv knows the environment variables by which programs find their
// proxy.
package proxyenv

import "strings"

var names = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"}

// Without takes out of an environment what names proxies.
func Without(env []string) []string {
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

// Variables are those of a program whose one way out is the proxy at url. What it
// serves on its own loopback it reaches without.
func Variables(url string) []string {
	// Node takes proxies of the environment from version 24 on, when it is told to.
	env := []string{"NO_PROXY=localhost,127.0.0.1,::1", "no_proxy=localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY=1"}
	for _, name := range names {
		env = append(env, name+"="+url)
	}
	return env
}

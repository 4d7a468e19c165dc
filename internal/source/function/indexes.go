package function

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// passwordHint is the hint for an index that needs a password.
const passwordHint = "write the password of the index into its address (UV_DEFAULT_INDEX or uv.toml), UV_INDEX_NAME_PASSWORD, or ~/.netrc"

// IndexPasswords returns the users and passwords of Python indexes, by origin. It reads them where
// uv does: in the addresses of the indexes in the environment and in uv.toml, in
// UV_INDEX_NAME_USERNAME and UV_INDEX_NAME_PASSWORD, and in the user's .netrc. The locks that uv
// writes contain no passwords.
func IndexPasswords(environ []string) map[string]*url.Userinfo {
	known := map[string]*url.Userinfo{}
	env := environMap(environ)
	add := func(address, name string) {
		at, err := url.Parse(address)
		if err != nil || at.Host == "" {
			return
		}
		user := at.User
		variable := "UV_INDEX_" + notVariableChar().ReplaceAllString(strings.ToUpper(name), "_")
		if who, ok := env[variable+"_USERNAME"]; ok && name != "" {
			user = url.UserPassword(who, env[variable+"_PASSWORD"])
		}
		if user == nil {
			user = netrcLogin(env, at.Hostname())
		}
		if user != nil && known[origin(at)] == nil {
			known[origin(at)] = user
		}
	}
	for _, variable := range []string{"UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL"} {
		for one := range strings.FieldsSeq(env[variable]) {
			name, address, named := strings.Cut(one, "=")
			if !named || strings.Contains(name, "/") {
				name, address = "", one
			}
			add(address, name)
		}
	}
	config, err := uvConfig(environ)
	if err != nil {
		return known // uv reports the error
	}
	pip, _ := config["pip"].(map[string]any)
	for _, settings := range []map[string]any{config, pip} {
		indexes, _ := settings["index"].([]map[string]any)
		for _, one := range indexes {
			address, _ := one["url"].(string)
			name, _ := one["name"].(string)
			add(address, name)
		}
		address, _ := settings["index-url"].(string)
		add(address, "")
		more, _ := settings["extra-index-url"].([]any)
		for _, one := range more {
			address, _ := one.(string)
			add(address, "")
		}
	}
	return known
}

var notVariableChar = pattern.Lazy(`[^A-Z0-9]`)

// origin returns the part of an address for which a password is valid.
func origin(at *url.URL) string { return at.Scheme + "://" + strings.ToLower(at.Host) }

func environMap(environ []string) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// uvConfig returns the configuration of uv.
func uvConfig(environ []string) (map[string]any, error) {
	env := environMap(environ)
	user := env["XDG_CONFIG_HOME"]
	if user == "" {
		user = filepath.Join(env["HOME"], ".config")
	}
	from := []string{"/etc/uv/uv.toml", filepath.Join(user, "uv", "uv.toml")}
	if one := env["UV_CONFIG_FILE"]; one != "" {
		from = []string{one}
	}
	config := map[string]any{}
	for _, one := range from {
		if _, err := toml.DecodeFile(one, &config); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the configuration of uv cannot be read: %w", err)
		}
	}
	return config, nil
}

// netrcLogin returns the user and password of a host in the file .netrc, or nil.
func netrcLogin(env map[string]string, machine string) *url.Userinfo {
	file := env["NETRC"]
	if file == "" {
		file = filepath.Join(env["HOME"], ".netrc")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	words := strings.Fields(string(text))
	var login, password string
	here := false
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "machine", "default":
			if here {
				return url.UserPassword(login, password)
			}
			here = words[i] == "default"
			if !here && i+1 < len(words) {
				i++
				here = words[i] == machine
			}
		case "login", "password":
			if here && i+1 < len(words) {
				if words[i] == "login" {
					login = words[i+1]
				} else {
					password = words[i+1]
				}
			}
			i++
		}
	}
	if !here {
		return nil
	}
	return url.UserPassword(login, password)
}

// client returns the HTTP client of the store, which sends each password to its own origin only.
// After a redirect, net/http would also send it to another port, to the same host without TLS,
// or to a sub-domain.
func (s LayerStore) client() *http.Client {
	c := *s.Client
	next := c.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c.Transport = authorizer{s, next}
	return &c
}

// authorizer is a transport that adds the passwords of a store.
type authorizer struct {
	store LayerStore
	next  http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (a authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if a.store.Passwords == nil {
		return a.next.RoundTrip(req)
	}
	if user := a.store.Passwords()[origin(req.URL)]; user != nil {
		req = req.Clone(req.Context())
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	return a.next.RoundTrip(req)
}

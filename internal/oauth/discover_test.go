package oauth_test

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/oauth"
)

func TestChallengesAreReadAsServersWriteThem(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]map[string]string{
		`Bearer realm="a, b", error="insufficient_scope", Scope="x y", DPoP algs="ES256"`: {"realm": "a, b", "error": "insufficient_scope", "scope": "x y", "algs": "ES256"},
		` scope="x"`:                          {"scope": "x"},
		`Bearer realm=,scope=x`:               {"realm": "", "scope": "x"},
		`Bearer error=invalid_token, scope=x`: {"error": "invalid_token", "scope": "x"},
		`Bearer scope="a \"quoted\" \\ word"`: {"scope": `a "quoted" \ word`},
		`Bearer scope="without an end`:        {"scope": "without an end"},
		`Bearer scope="ends in \`:             {"scope": `ends in \`},
		`Bearer`:                              {},
		``:                                    {},
	} {
		if got := oauth.Parameters(header); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", header, got, want)
		}
	}
}

func TestMetadataAreFoundAtEveryPlaceOfTheirStandards(t *testing.T) {
	t.Parallel()
	resource := func(w *world, auth string) map[string]any {
		return map[string]any{"resource": w.URL + "/mcp", "authorization_servers": []string{auth}}
	}
	auth := func(w *world, issuer string) map[string]any {
		return map[string]any{
			"issuer": issuer, "authorization_endpoint": w.URL + "/authorize", "token_endpoint": w.URL + "/token", "registration_endpoint": w.URL + "/register",
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		}
	}
	const protected, server, openid = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	for name, setup := range map[string]func(*world) map[string]map[string]any{
		"named by the challenge": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{"/meta": resource(w, w.URL+"/tenant"), server + "/tenant": auth(w, w.URL+"/tenant")}
		},
		"of the path": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{protected + "/mcp": resource(w, w.URL), server: auth(w, w.URL)}
		},
		"of the host": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{protected: {"resource": w.URL, "authorization_servers": []string{w.URL}}, server: auth(w, w.URL)}
		},
		"OpenID of a host": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{protected: resource(w, w.URL), openid: auth(w, w.URL+"/")}
		},
		"of an issuer with a path": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{protected: resource(w, w.URL+"/tenant/"), server + "/tenant": auth(w, w.URL+"/tenant")}
		},
		"OpenID before the path": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{protected: resource(w, w.URL+"/tenant"), openid + "/tenant": auth(w, w.URL+"/tenant")}
		},
		"OpenID after the path": func(w *world) map[string]map[string]any {
			return map[string]map[string]any{protected: resource(w, w.URL+"/tenant"), "/tenant" + openid: auth(w, w.URL+"/tenant")}
		},
		"nowhere, as in revision 2025-03-26": func(*world) map[string]map[string]any { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			documents := setup(w)
			for _, document := range documents {
				if issuer, ok := document["issuer"].(string); ok {
					w.iss = issuer
				}
			}
			for _, path := range []string{protected, protected + "/mcp", server, openid, server + "/tenant", openid + "/tenant", "/tenant" + openid, "/meta"} {
				w.handle(path, func(rw http.ResponseWriter, r *http.Request) {
					document := documents[path]
					switch {
					case document == nil && strings.HasSuffix(path, "/mcp"):
						rw.WriteHeader(http.StatusBadRequest) // the first status that means none
					case document == nil:
						rw.WriteHeader(499) // the last one
					case r.Header.Get("Accept") != "application/json":
						rw.WriteHeader(http.StatusNotAcceptable)
					default:
						reply(rw, http.StatusOK, document)
					}
				})
			}
			if documents["/meta"] != nil {
				w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "" {
						w.resource(rw, r)
						return
					}
					rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+w.URL+`/meta"`)
					rw.WriteHeader(http.StatusUnauthorized)
				})
			} else {
				w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Authorization") != "" {
						w.resource(rw, r)
						return
					}
					rw.WriteHeader(http.StatusUnauthorized)
				})
			}
			if documents == nil {
				w.handle("/authorize", func(rw http.ResponseWriter, r *http.Request) {
					http.Redirect(rw, r, "http://127.0.0.1:1/callback?code=c&state="+r.URL.Query().Get("state"), http.StatusFound)
				})
			}
			c := w.client(&store{})
			var needed *oauth.Needed
			if _, err := w.post(t, c, ""); !errors.As(err, &needed) {
				t.Fatal(err)
			}
			if err := w.login(t, c); err != nil {
				t.Fatal(err)
			}
			if _, err := w.post(t, c, ""); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestMetadataThatCannotBeBelievedAreRefused(t *testing.T) {
	t.Parallel()
	const protected, server = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
	status := func(path string, code int, body string) func(*world) {
		return func(w *world) {
			w.handle(path, func(rw http.ResponseWriter, _ *http.Request) {
				rw.WriteHeader(code)
				_, _ = rw.Write([]byte(body))
			})
		}
	}
	names := func(key string, value any) func(*world) {
		return func(w *world) { w.names = map[string]any{key: value} }
	}
	auth := func(key string, value any) func(*world) {
		return func(w *world) { w.auth = map[string]any{key: value} }
	}
	for name, tt := range map[string]struct {
		setup func(*world)
		says  string
	}{
		"a server error":               {status(protected, http.StatusInternalServerError, ""), "status 500"},
		"no content":                   {status(protected, http.StatusNoContent, ""), "status 204"},
		"no JSON":                      {status(protected, http.StatusOK, "<html>"), "not a metadata document"},
		"a server error of the issuer": {status(server, http.StatusServiceUnavailable, ""), "status 503"},
		"a resource of another host":   {names("resource", "http://other.example/mcp"), "is of"},
		"a resource of another scheme": {func(w *world) {
			w.names = map[string]any{"resource": "https" + strings.TrimPrefix(w.URL, "http") + "/mcp"}
		}, "is of"},
		"a resource with a longer path": {func(w *world) { w.names = map[string]any{"resource": w.URL + "/mcp/more"} }, "is of"},
		"a resource with a part of it":  {func(w *world) { w.names = map[string]any{"resource": w.URL + "/m"} }, "is of"},
		"a resource that is no URL":     {names("resource", "http://[::1"), "is of"},
		"no authorization server":       {names("authorization_servers", []string{}), "names no authorization server"},
		"an issuer that is no URL":      {names("authorization_servers", []string{"http://[::1"}), "authorization server"},
		"an issuer without TLS":         {names("authorization_servers", []string{"http://login.example.com"}), "is not HTTPS"},
		"an issuer of the network":      {names("authorization_servers", []string{"http://10.0.0.1"}), "is not HTTPS"},
		"another scheme":                {names("authorization_servers", []string{"ftp://127.0.0.1"}), "is not HTTPS"},
		"another issuer":                {auth("issuer", "https://login.example.com"), "is of the issuer"},
		"a token endpoint without TLS":  {auth("token_endpoint", "http://login.example.com/token"), "is not HTTPS"},
		"a registration without TLS":    {auth("registration_endpoint", "http://login.example.com/register"), "is not HTTPS"},
		"an endpoint that is no URL":    {auth("authorization_endpoint", "http://[::1"), "the metadata at"},
		"no PKCE":                       {auth("code_challenge_methods_supported", []string{"plain"}), "does not support PKCE"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.setup(w)
			c := w.client(&store{})
			if err := w.login(t, c); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("a login: %v", err)
			}
			var needed *oauth.Needed
			if _, err := w.post(t, c, ""); errors.As(err, &needed) != (name == "no PKCE") {
				t.Errorf("a request: %v", err)
			}
			if len(w.forms()) > 0 {
				t.Errorf("the token endpoint was asked for %v", w.forms())
			}
		})
	}
}

func TestEndpointsOnThisMachineNeedNoTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.auth = map[string]any{"token_endpoint": strings.Replace(w.URL, "127.0.0.1", "localhost", 1) + "/token", "authorization_endpoint": "http://[::1]:1/authorize"}
	c := w.client(&store{})
	var visited string
	_ = c.Login(t.Context(), "http://127.0.0.1:1/callback", visit(&visited, func(string) string { return "" }))
	if !strings.HasPrefix(visited, "http://[::1]:1/authorize?") {
		t.Errorf("visited %q", visited)
	}
	delete(w.auth, "authorization_endpoint")
	if err := w.login(t, c); err != nil {
		t.Error(err)
	}
}

func TestAResourceMayBeAPartOfItsHost(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"", "/", "/mcp", "/mcp/"} {
		w := newWorld(t)
		w.names = map[string]any{"resource": w.URL + path}
		c := w.client(&store{})
		if err := w.login(t, c); err != nil {
			t.Errorf("%q: %v", path, err)
			continue
		}
		if got := w.forms()[0].Get("resource"); got != w.URL+path {
			t.Errorf("the token is for %q", got)
		}
	}
}

func TestScopesAreThoseOfTheChallengeElseOfTheResourceAndOfTheConfig(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		challenge string
		auth      map[string]any
		grant     oauth.Grant
		config    []string
		want      string
	}{
		"challenge":          {challenge: "read", want: "read"},
		"challenge, config":  {challenge: "read", config: []string{"more", "read"}, want: "read more"},
		"resource":           {want: "supported"},
		"resource, config":   {config: []string{"more"}, want: "supported more"},
		"offline":            {challenge: "read", auth: map[string]any{"scopes_supported": []string{"offline_access"}}, want: "read offline_access"},
		"offline, a machine": {challenge: "read", auth: map[string]any{"scopes_supported": []string{"offline_access"}}, grant: oauth.ClientCredentials, want: "read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.wantScope, w.auth, w.names = tt.challenge, tt.auth, map[string]any{"scopes_supported": []string{"supported"}}
			config := oauth.Config{Grant: tt.grant, Scopes: tt.config}
			if tt.grant != "" {
				config.Issuer, config.ClientID, config.ClientSecret = w.URL, "id", "secret"
			}
			if tt.grant != "" {
				if _, err := w.post(t, w.with(&store{}, config), ""); err != nil {
					t.Fatal(err)
				}
				if got := w.forms()[0].Get("scope"); got != tt.want {
					t.Errorf("asked for %q", got)
				}
				return
			}
			c := w.with(&store{}, config)
			var needed *oauth.Needed
			if _, err := w.post(t, c, ""); !errors.As(err, &needed) || strings.Join(needed.Scopes, " ") != tt.want {
				t.Errorf("needed: %v", err)
			}
			// The login of a person who comes first probes the resource.
			for _, c := range []*oauth.Client{c, w.with(&store{}, config)} {
				var visited string
				_ = c.Login(t.Context(), "http://127.0.0.1:1/callback", visit(&visited, func(string) string { return "" }))
				query := parse(t, visited).Query()
				if query.Get("scope") != tt.want || query.Has("prompt") != strings.Contains(tt.want, "offline_access") {
					t.Errorf("visited %s", visited)
				}
			}
		})
	}
	w := newWorld(t)
	var visited string
	c := w.client(&store{})
	_ = c.Login(t.Context(), "http://127.0.0.1:1/callback", visit(&visited, func(string) string { return "" }))
	if query := parse(t, visited).Query(); query.Has("scope") {
		t.Errorf("no scope is needed, visited %s", visited)
	}
	// What the config asks for later is asked for too, also if the server has not said more.
	s := &store{}
	_, _ = w.post(t, w.client(s), "")
	_ = w.with(s, oauth.Config{Scopes: []string{"later"}}).Login(t.Context(), "http://127.0.0.1:1/callback", visit(&visited, func(string) string { return "" }))
	if query := parse(t, visited).Query(); query.Get("scope") != "later" {
		t.Errorf("visited %s", visited)
	}
	machine := w.with(&store{}, oauth.Config{Grant: oauth.ClientCredentials, Issuer: w.URL, ClientID: "id", ClientSecret: "secret"})
	if _, err := w.post(t, machine, ""); err != nil {
		t.Fatal(err)
	}
	form := maps.Clone(w.forms()[0])
	if form.Has("scope") || form.Get("grant_type") != "client_credentials" {
		t.Errorf("%v", form)
	}
}

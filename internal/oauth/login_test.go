package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/internal/oauth"
)

const redirect = "http://127.0.0.1:1/callback"

func parse(t *testing.T, address string) *url.URL {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// visit stores the address of the login and returns what back says. If that is empty, it
// fails.
func visit(address *string, back func(address string) string) oauth.Visit {
	return func(_ context.Context, a string) (string, error) {
		*address = a
		if b := back(a); b != "" {
			return b, nil
		}
		return "", errors.New("the window was closed")
	}
}

func TestOnlyTheRedirectOfThisLoginIsTaken(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		back  string // %s stands for the state
		iss   bool   // the authorization server promises to name its issuer
		says  string
		taken bool
	}{
		"no URL":            {back: "http://[::1", says: "not a valid URL"},
		"another state":     {back: redirect + "?code=c&state=other", says: "another login"},
		"no state":          {back: redirect + "?code=c", says: "another login"},
		"no issuer":         {back: redirect + "?code=c&state=%s", iss: true, says: "does not name its issuer"},
		"an undeclared one": {back: redirect + "?code=c&state=%s&iss=ISS", says: "declares none"},
		"another issuer":    {back: redirect + "?code=c&state=%s&iss=https://evil.example", says: "not from"},
		"a refusal":         {back: redirect + "?error=access_denied&error_description=not+today&state=%s&iss=ISS", iss: true, says: "access_denied: not today"},
		"no code":           {back: redirect + "?state=%s&iss=ISS", iss: true, says: "no code"},
		"closed":            {says: "the window was closed"},
		"the right one":     {back: " " + redirect + "?code=c&state=%s&iss=ISS\n", iss: true, taken: true},
		"without issuers":   {back: redirect + "?code=c&state=%s", taken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.auth = map[string]any{"authorization_response_iss_parameter_supported": tt.iss}
			var visited string
			err := w.client(&store{}).Login(t.Context(), redirect, visit(&visited, func(address string) string {
				back := strings.ReplaceAll(tt.back, "%s", parse(t, address).Query().Get("state"))
				return strings.ReplaceAll(back, "ISS", url.QueryEscape(w.URL))
			}))
			if (err == nil) != tt.taken || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Error(err)
			}
			if sent := len(w.forms()) > 0; sent != tt.taken {
				t.Errorf("the code was sent: %v", sent)
			}
		})
	}
}

func TestALoginSaysWhyItIsNeeded(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	w.wantScope = "read"
	c := w.client(s)
	_, err := w.post(t, c, "")
	if err == nil || !strings.Contains(err.Error(), "needs a login: nobody has logged in (read)") {
		t.Error(err)
	}
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	if waiting, err := c.RequiredLogin(t.Context()); waiting != nil || err != nil {
		t.Errorf("after the login: %v, %v", waiting, err)
	}
	if _, err := w.post(t, c, "write"); err == nil || !strings.Contains(err.Error(), "the login does not go far enough (read write)") {
		t.Error(err)
	}
	w.drop()
	w.mu.Lock()
	clear(w.refresh)
	w.mu.Unlock()
	for range 2 { // with its token, and then without one
		if _, err := w.post(t, c, ""); err == nil || !strings.Contains(err.Error(), "the login has run out") {
			t.Error(err)
		}
		s.edit(t, w.URL, func(grant map[string]any) { delete(grant, "access_token") })
		c = w.client(s)
	}
	if text := (&oauth.Needed{Reason: "r"}).Error(); text != "needs a login: r" {
		t.Error(text)
	}
	if text := (&oauth.Refused{Reason: "r"}).Error(); text != "it refuses the authorisation: r" {
		t.Error(text)
	}
}

// Status 401 asks for a token, whatever its error, and 403 without this error for nothing.
func TestOnlyAChallengeForMoreScopesIsAStepUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		header string
		needed bool
		stepUp bool
	}{
		"401":               {http.StatusUnauthorized, `Bearer error="insufficient_scope", scope="write"`, true, false},
		"403 for scopes":    {http.StatusForbidden, `Bearer error="insufficient_scope", scope="write"`, true, true},
		"403 without names": {http.StatusForbidden, `Bearer error="insufficient_scope"`, true, true},
		"403":               {http.StatusForbidden, `Bearer error="invalid_request"`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), &store{}
			w.wantScope = "read"
			c := w.client(s)
			if err := w.login(t, c); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			clear(w.refresh)
			w.mu.Unlock()
			w.handle("/mcp", func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("WWW-Authenticate", tt.header)
				rw.WriteHeader(tt.status)
			})
			_, err := w.post(t, c, "")
			var needed *oauth.Needed
			if errors.As(err, &needed) != tt.needed || tt.needed && needed.StepUp != tt.stepUp {
				t.Errorf("%v", err)
			}
			if !tt.needed && err.Error() != "403 Forbidden" {
				t.Errorf("the server's own answer is lost: %v", err)
			}
		})
	}
}

// A server may ask for scopes that the token has because it does not know the token.
func TestATokenThatTheServerForgotIsRenewedWhateverScopesItNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantScope = "read"
	c := w.client(&store{})
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	w.drop()
	if _, err := w.post(t, c, ""); err != nil {
		t.Error(err)
	}
}

func TestRegistration(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config oauth.Config
		auth   map[string]any
		status int
		answer string // of the registration
		client string // at the authorization endpoint
		method string // that the registration asks for; empty if there is none
		basic  bool   // at the token endpoint
		secret string // in the form of the request for a token
		says   string // if it fails
	}{
		"public":               {status: 201, answer: `{"client_id":"new"}`, client: "new", method: "none"},
		"with status 200":      {status: 200, answer: `{"client_id":"new"}`, client: "new", method: "none"},
		"public and others":    {auth: map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic", "none"}}, status: 201, answer: `{"client_id":"new"}`, client: "new", method: "none"},
		"basic":                {auth: map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_basic"}}, status: 201, answer: `{"client_id":"new","client_secret":"s"}`, client: "new", method: "client_secret_basic", basic: true},
		"post":                 {auth: map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}, status: 201, answer: `{"client_id":"new","client_secret":"s"}`, client: "new", method: "client_secret_post", secret: "s"},
		"what the server says": {status: 201, answer: `{"client_id":"new","client_secret":"s","token_endpoint_auth_method":"client_secret_post"}`, client: "new", method: "none", secret: "s"},
		"refused":              {status: 400, answer: `{"error":"invalid_redirect_uri","error_description":"no"}`, method: "none", says: "invalid_redirect_uri: no"},
		"failed":               {status: 500, answer: `{}`, method: "none", says: "status 500"},
		"no id":                {status: 201, answer: `{}`, method: "none", says: "no client id"},
		"no JSON":              {status: 201, answer: `{"client_id":"new"`, method: "none", says: "no client id"},
		"no registration":      {auth: map[string]any{"registration_endpoint": ""}, says: "registers no clients"},
		"a document":           {config: oauth.Config{MetadataURL: "https://toolroom.example/client.json"}, auth: map[string]any{"client_id_metadata_document_supported": true}, client: "https://toolroom.example/client.json"},
		"an unread document":   {config: oauth.Config{MetadataURL: "https://toolroom.example/client.json"}, status: 201, answer: `{"client_id":"new"}`, client: "new", method: "none"},
		"no document":          {auth: map[string]any{"client_id_metadata_document_supported": true}, status: 201, answer: `{"client_id":"new"}`, client: "new", method: "none"},
		"the operator's id":    {config: oauth.Config{ClientID: "mine"}, client: "mine"},
		"a key without issuer": {config: oauth.Config{ClientID: "mine", PrivateKey: "key"}, says: "oauth.issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.auth = tt.auth
			var asked []map[string]any
			w.handle("/register", func(rw http.ResponseWriter, r *http.Request) {
				var body map[string]any
				_ = json.NewDecoder(r.Body).Decode(&body)
				if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept") != "application/json" {
					t.Errorf("the registration has %v", r.Header)
				}
				asked = append(asked, body)
				rw.WriteHeader(tt.status)
				_, _ = rw.Write([]byte(tt.answer))
			})
			var visited string
			c := w.with(&store{}, tt.config)
			err := c.Login(t.Context(), redirect, visit(&visited, func(address string) string {
				return redirect + "?code=c&iss=" + url.QueryEscape(w.URL) + "&state=" + parse(t, address).Query().Get("state")
			}))
			if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Fatal(err)
			}
			if tt.method == "" && len(asked) > 0 || tt.method != "" && (len(asked) != 1 || asked[0]["token_endpoint_auth_method"] != tt.method || asked[0]["redirect_uris"].([]any)[0] != redirect) {
				t.Errorf("registered %v", asked)
			}
			if err != nil {
				return
			}
			if got := parse(t, visited).Query().Get("client_id"); got != tt.client {
				t.Errorf("the login is of the client %q", got)
			}
			form := w.forms()[0]
			id := tt.client
			if tt.basic {
				id = ""
			}
			if form.Get("client_id") != id || form.Get("client_secret") != tt.secret || (w.basic[0] != "") != tt.basic {
				t.Errorf("%v, %q", form, w.basic[0])
			}
		})
	}
}

// The race detector sees whether one caller reads the config while secrets are resolved in it
// for another.
func TestCallersWithoutALoginAreNotInEachOthersWay(t *testing.T) {
	t.Parallel()
	c := newWorld(t).with(&store{}, oauth.Config{Issuer: "https://login.example.com", Scopes: []string{"a"}})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 20 {
				var needed *oauth.Needed
				if _, err := c.AccessToken(t.Context()); !errors.As(err, &needed) || needed.Issuer != "https://login.example.com" {
					t.Error(err)
				}
				if _, err := c.RequiredLogin(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
}

func TestAServiceWithoutDiscovery(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	config := oauth.Config{
		ClientID: "mine", ClientSecret: "secret", Issuer: "https://login.example.com", Scopes: []string{"a", "b"},
		Endpoints: &oauth.Endpoints{Authorization: w.URL + "/authorize?access=offline&state=theirs", Token: w.URL + "/token"},
	}
	c := w.with(s, config)
	var needed *oauth.Needed
	if _, err := c.AccessToken(t.Context()); !errors.As(err, &needed) || needed.Issuer != config.Issuer || len(needed.Scopes) != 2 {
		t.Fatalf("before the login: %v", err)
	}
	var visited string
	if err := c.Login(t.Context(), redirect, visit(&visited, func(address string) string {
		return redirect + "?code=c&iss=" + url.QueryEscape(config.Issuer) + "&state=" + parse(t, address).Query().Get("state")
	})); err != nil {
		t.Fatal(err)
	}
	query := parse(t, visited).Query()
	if query.Get("access") != "offline" || len(query["state"]) != 1 || query.Get("state") == "theirs" || query.Has("resource") || query.Get("scope") != "a b" {
		t.Errorf("visited %s", visited)
	}
	if form := w.forms()[0]; form.Has("resource") {
		t.Errorf("%v", form)
	}
	token, err := w.with(s, config).AccessToken(t.Context())
	if err != nil || token == "" {
		t.Errorf("%q, %v", token, err)
	}
	s.edit(t, config.Issuer, func(grant map[string]any) { grant["expires"] = "2001-01-01T00:00:00Z" })
	c = w.with(s, config)
	renewed, err := c.AccessToken(t.Context())
	if err != nil || renewed == token {
		t.Errorf("%q, %v", renewed, err)
	}
	if form := w.forms()[1]; form.Get("grant_type") != "refresh_token" || form.Has("resource") {
		t.Errorf("%v", form)
	}
	if err := c.Logout(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*oauth.Client{c, w.with(s, config)} {
		if _, err := c.AccessToken(t.Context()); !errors.As(err, &needed) {
			t.Errorf("after the logout: %v", err)
		}
	}
	if strings.Contains(string(s.data), renewed) {
		t.Errorf("the logout leaves %s", s.data)
	}
	config.Endpoints.Authorization = "http://[::1"
	if err := w.with(&store{}, config).Login(t.Context(), redirect, nil); err == nil {
		t.Error("an address that is no URL was visited")
	}
}

func TestALoginThatFailsAtItsEndIsNoLogin(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	c := w.client(s)
	w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
		reply(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "too late"})
	})
	if err := w.login(t, c); err == nil || !strings.Contains(err.Error(), "invalid_grant: too late") {
		t.Error(err)
	}
	w.handle("/token", nil)
	broken := errors.New("the store is broken")
	for name, set := range map[string]func(*store){
		"lock": func(s *store) { s.lockErr = broken },
		"load": func(s *store) { s.loadErr = broken },
		"save": func(s *store) { s.saveErr = broken },
	} {
		s := &store{}
		set(s)
		if err := w.login(t, w.client(s)); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, grant := range []oauth.Grant{oauth.ClientCredentials, oauth.Workload, oauth.Enterprise} {
		if err := w.with(s, oauth.Config{Grant: grant}).Login(t.Context(), redirect, nil); err == nil || !strings.Contains(err.Error(), "does not use a login") {
			t.Errorf("%s: %v", grant, err)
		}
	}
	const gone = "http://127.0.0.1:1" // a closed server's port may be another test's a moment later
	if err := oauth.New(oauth.Config{Resource: gone}, &store{}, nil).Login(t.Context(), redirect, nil); err == nil {
		t.Error("a login at a server that is gone")
	}
	if err := oauth.New(oauth.Config{Resource: "http://[::1"}, &store{}, nil).Login(t.Context(), redirect, nil); err == nil {
		t.Error("a login at an address that is no URL")
	}
}

func TestAProbeAsksAsAClientOfMCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		var body struct{ Method string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		if r.Method != http.MethodPost || body.Method != "tools/list" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Accept") != "application/json, text/event-stream" {
			t.Errorf("%s %q with %v", r.Method, body.Method, r.Header)
		}
		w.resource(rw, r)
	})
	if err := w.login(t, w.client(&store{})); err != nil {
		t.Error(err)
	}
}

func TestCallersDoNotWaitForeverForOneWhoLogsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(&store{})
	done, end := context.WithCancel(t.Context())
	end()
	err := c.Login(t.Context(), redirect, func(context.Context, string) (string, error) {
		request, _ := http.NewRequestWithContext(done, http.MethodGet, w.URL+"/mcp", nil)
		_, waiting := c.RequiredLogin(done)
		_, token := c.AccessToken(done)
		_, trip := c.Transport(nil).RoundTrip(request)
		for name, err := range map[string]error{"Waiting": waiting, "AccessToken": token, "RoundTrip": trip, "Logout": c.Logout(done), "Login": c.Login(done, redirect, nil)} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
		return "", errors.New("closed")
	})
	if err == nil || err.Error() != "closed" {
		t.Error(err)
	}
	if _, err := c.RequiredLogin(t.Context()); err != nil {
		t.Error(err)
	}
}

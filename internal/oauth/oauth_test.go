package oauth_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom/internal/oauth"
)

// world is a resource and its authorization server, in one.
type world struct {
	*httptest.Server
	mu            sync.Mutex
	valid         map[string]string // access tokens and their scopes
	refresh       map[string]bool
	tokenRequests []url.Values
	registrations int
	seen          atomic.Int64 // requests to the resource
	seq           int
	assertions    map[string]bool // that were exchanged
	names         map[string]any  // in the metadata of the resource, in place of what is right
	auth          map[string]any  // in the metadata of the authorization server, likewise
	// handlers are in place of those below, by path.
	handlers map[string]http.HandlerFunc
	// open counts the answers whose bodies nobody has closed.
	open atomic.Int64
	// basic holds the Authorization of requests for tokens.
	basic     []string
	wantScope string
	expiresIn int
	refuses   bool   // tokens, whichever
	iss       string // in the answer of the authorization endpoint; "" for the right one
}

func newWorld(t *testing.T) *world {
	w := &world{valid: map[string]string{}, refresh: map[string]bool{}, assertions: map[string]bool{}, handlers: map[string]http.HandlerFunc{}, expiresIn: 3600}
	mux := http.NewServeMux()
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		h := w.handlers[r.URL.Path]
		w.mu.Unlock()
		if h == nil {
			h = mux.ServeHTTP
		}
		h(rw, r)
	}))
	t.Cleanup(func() {
		w.Close()
		if n := w.open.Load(); n != 0 {
			t.Errorf("%d answers were not closed", n)
		}
	})
	mux.HandleFunc("/mcp", w.resource)
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(rw http.ResponseWriter, r *http.Request) {
		metadata := map[string]any{"resource": w.URL + "/mcp", "authorization_servers": []string{w.URL}}
		maps.Copy(metadata, w.names)
		reply(rw, 200, metadata)
	})
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(rw http.ResponseWriter, r *http.Request) {
		metadata := map[string]any{
			"issuer": w.URL, "authorization_endpoint": w.URL + "/authorize", "token_endpoint": w.URL + "/token",
			"registration_endpoint": w.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
			"authorization_response_iss_parameter_supported": true,
		}
		maps.Copy(metadata, w.auth)
		reply(rw, 200, metadata)
	})
	mux.HandleFunc("/register", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.registrations++
		w.mu.Unlock()
		reply(rw, 201, map[string]any{"client_id": "registered", "token_endpoint_auth_method": "none"})
	})
	mux.HandleFunc("/authorize", func(rw http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		iss := w.iss
		if iss == "" {
			iss = w.URL
		}
		back := url.Values{"code": {q.Get("scope") + "|code"}, "state": {q.Get("state")}, "iss": {iss}}
		http.Redirect(rw, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", w.token)
	return w
}

func (w *world) token(rw http.ResponseWriter, r *http.Request) {
	r.ParseForm()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokenRequests = append(w.tokenRequests, r.PostForm)
	w.basic = append(w.basic, r.Header.Get("Authorization"))
	scope, _, _ := strings.Cut(r.PostForm.Get("code"), "|")
	if r.PostForm.Get("grant_type") == "refresh_token" {
		if !w.refresh[r.PostForm.Get("refresh_token")] {
			reply(rw, 400, map[string]any{"error": "invalid_grant"})
			return
		}
		delete(w.refresh, r.PostForm.Get("refresh_token")) // they are good for once
		scope = w.wantScope
	}
	if assertion := r.PostForm.Get("assertion"); assertion != "" {
		if w.assertions[assertion] {
			reply(rw, 400, map[string]any{"error": "invalid_grant", "error_description": "replay"})
			return
		}
		w.assertions[assertion] = true
	}
	w.seq++
	token, refresh := "access-"+string(rune('a'+w.seq)), "refresh-"+string(rune('a'+w.seq))
	w.valid[token], w.refresh[refresh] = scope, true
	reply(rw, 200, map[string]any{"access_token": token, "token_type": "Bearer", "refresh_token": refresh, "expires_in": w.expiresIn, "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"})
}

func (w *world) resource(rw http.ResponseWriter, r *http.Request) {
	w.seen.Add(1)
	w.mu.Lock()
	scope, ok := w.valid[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	want, refuses := w.wantScope, w.refuses
	w.mu.Unlock()
	where := `, resource_metadata="` + w.URL + `/.well-known/oauth-protected-resource/mcp"`
	switch {
	case !ok || refuses:
		rw.Header().Set("WWW-Authenticate", `Bearer scope="`+want+`"`+where)
		rw.WriteHeader(http.StatusUnauthorized)
	case r.Header.Get("Want") != "" && !strings.Contains(scope, r.Header.Get("Want")):
		rw.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+r.Header.Get("Want")+`"`+where)
		rw.WriteHeader(http.StatusForbidden)
	default:
		body, _ := io.ReadAll(r.Body)
		rw.Write(body)
	}
}

// drop makes all access tokens invalid.
func (w *world) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.valid)
}

type store struct {
	mu     sync.Mutex
	data   []byte
	locked sync.Mutex
	// learned and saved are the secrets that were listed last.
	learned, saved []string
	locks          int // how often it was locked
	// What fails, if it is set.
	lockErr, loadErr, saveErr error
}

func (s *store) Lock(context.Context) (func(), error) {
	s.mu.Lock()
	s.locks++
	err := s.lockErr
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.locked.Lock()
	return s.locked.Unlock, nil
}

func (s *store) Load(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.loadErr
}

func (s *store) Save(_ context.Context, data []byte, secrets []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saveErr != nil {
		return s.saveErr
	}
	s.data, s.saved = data, secrets
	return nil
}

func (s *store) Learn(secrets []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.learned = secrets
}

// edit changes the stored grant of an issuer.
func (s *store) edit(t *testing.T, issuer string, change func(grant map[string]any)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var record map[string]any
	if err := json.Unmarshal(s.data, &record); err != nil {
		t.Fatal(err)
	}
	change(record["grants"].(map[string]any)[issuer].(map[string]any))
	s.data, _ = json.Marshal(record)
}

func (w *world) client(s *store) *oauth.Client { return w.with(s, oauth.Config{}) }

// with returns a client with this config, for the resource.
func (w *world) with(s *store, c oauth.Config) *oauth.Client {
	if c.Endpoints == nil {
		c.Resource = w.URL + "/mcp"
	}
	return oauth.New(c, s, &http.Client{Transport: &bodies{w: w}})
}

// bodies counts the answers whose bodies are open.
type bodies struct{ w *world }

func (b *bodies) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.w.Client().Transport.RoundTrip(r) // not the one that all tests share: who closes a server closes its idle connections
	if err == nil {
		b.w.open.Add(1)
		resp.Body = &openBody{ReadCloser: resp.Body, closed: sync.OnceFunc(func() { b.w.open.Add(-1) })}
	}
	return resp, err
}

type openBody struct {
	io.ReadCloser
	closed func()
}

func (b *openBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}

// handle puts a handler in place of the one at path; nil puts that back.
func (w *world) handle(path string, h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[path] = h
}

// forms returns the requests for tokens.
func (w *world) forms() []url.Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tokenRequests)
}

func reply(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	json.NewEncoder(rw).Encode(v)
}

func (w *world) post(t *testing.T, c *oauth.Client, want string) (string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/mcp", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	if want != "" {
		req.Header.Set("Want", want)
	}
	resp, err := (&http.Client{Transport: c.Transport(&bodies{w: w})}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 {
		return "", errors.New(resp.Status)
	}
	return string(body), nil
}

func (w *world) login(t *testing.T, c *oauth.Client) error {
	t.Helper()
	return c.Login(t.Context(), "http://127.0.0.1:1/callback", func(_ context.Context, address string) (string, error) {
		client := *w.Client()
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		resp, err := client.Get(address)
		if err != nil {
			return "", err
		}
		resp.Body.Close()
		return resp.Header.Get("Location"), nil
	})
}

func TestALoginIsNeededOnceAndServesEveryClientOfTheStore(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	c := w.client(s)
	var needed *oauth.Needed
	if _, err := w.post(t, c, ""); !errors.As(err, &needed) || needed.StepUp {
		t.Fatalf("without a login: %v", err)
	}
	other := w.client(s) // as another process
	if waiting, err := other.RequiredLogin(t.Context()); err != nil || waiting == nil {
		t.Fatalf("another process sees %v, %v", waiting, err)
	}
	if err := w.login(t, other); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*oauth.Client{other, c} {
		if body, err := w.post(t, c, ""); err != nil || body != "body" {
			t.Errorf("after the login: %q, %v", body, err)
		}
	}
	form := w.tokenRequests[0]
	if form.Get("resource") != w.URL+"/mcp" || form.Get("code_verifier") == "" {
		t.Errorf("the token was asked for with %v", form)
	}
}

func TestARefusedTokenIsRenewedOnceForAllWhoUseIt(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), (*oauth.Client)(nil)
	c = w.client(&store{})
	w.post(t, c, "")
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	w.drop()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := w.post(t, c, ""); err != nil {
				t.Errorf("a request with a token that was dropped: %v", err)
			}
		})
	}
	all.Wait()
	if n := len(w.tokenRequests); n != 2 {
		t.Errorf("the token endpoint was asked %d times, want once for the login and once for the renewal", n)
	}
}

func TestAServerThatRefusesNewTokensWaitsForALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(&store{})
	w.post(t, c, "")
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	refuse := func(all bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.refuses = all
	}
	refuse(true)
	seen := w.seen.Load()
	var needed *oauth.Needed
	if _, err := w.post(t, c, ""); !errors.As(err, &needed) || needed.StepUp {
		t.Errorf("with a new token that is refused: %v", err)
	}
	if n := w.seen.Load() - seen; n != 2 {
		t.Errorf("the server was asked %d times, want once with each token", n)
	}
	if waiting, err := c.RequiredLogin(t.Context()); err != nil || waiting == nil {
		t.Errorf("nobody is told to log in: %v, %v", waiting, err)
	}
	refuse(false)
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	if _, err := w.post(t, c, ""); err != nil {
		t.Errorf("after the login: %v", err)
	}
}

func TestALoginThatDoesNotGoFarEnoughIsWidenedAndNotAskedForTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wantScope = "read"
	c := w.client(&store{})
	w.post(t, c, "")
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	var needed *oauth.Needed
	if _, err := w.post(t, c, "write"); !errors.As(err, &needed) || !needed.StepUp || strings.Join(needed.Scopes, " ") != "read write" {
		t.Fatalf("a request that needs more: %v", err)
	}
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	if _, err := w.post(t, c, "write"); err != nil {
		t.Fatalf("after the second login: %v", err)
	}
	// What the token is said to have, and the server still does not see in it.
	w.mu.Lock()
	for token := range w.valid {
		w.valid[token] = ""
	}
	w.mu.Unlock()
	var refused *oauth.Refused
	if _, err := w.post(t, c, "write"); !errors.As(err, &refused) {
		t.Errorf("a server that wants what it has: %v", err)
	}
}

func TestWhatComesBackFromAnotherIssuerIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.iss = "https://evil.example"
	c := w.client(&store{})
	if err := w.login(t, c); err == nil || !strings.Contains(err.Error(), "evil.example") {
		t.Errorf("got %v", err)
	}
	if len(w.tokenRequests) != 0 {
		t.Error("the code was sent all the same")
	}
}

func TestTokensGoToTheirServerOnly(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	c := w.client(s)
	w.post(t, c, "")
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("Authorization") }))
	defer elsewhere.Close()
	resp, err := (&http.Client{Transport: c.Transport(nil)}).Get(elsewhere.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if sent := <-got; sent != "" {
		t.Errorf("another server got %q", sent)
	}
}

func TestRegistrationIsUsedAgainWithItsIssuer(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	c := w.client(s)
	for range 2 {
		if err := w.login(t, c); err != nil {
			t.Fatal(err)
		}
	}
	if w.registrations != 1 {
		t.Errorf("the client was registered %d times", w.registrations)
	}
}

func TestTwoClientsOfOneLoginKeepIt(t *testing.T) {
	t.Parallel()
	for range 20 {
		w, s := newWorld(t), &store{}
		first := w.client(s)
		w.post(t, first, "") // learns that a login is needed
		if err := w.login(t, first); err != nil {
			t.Fatal(err)
		}
		w.drop()
		var wg sync.WaitGroup
		for _, c := range []*oauth.Client{w.client(s), w.client(s), first} {
			wg.Go(func() {
				if _, err := w.post(t, c, ""); err != nil {
					t.Errorf("a request of one of them: %v", err)
				}
			})
		}
		wg.Wait()
		w.drop()
		if _, err := w.post(t, w.client(s), ""); err != nil {
			t.Fatalf("the login is lost: %v", err)
		}
	}
}

func TestCredentialsGoOnlyToTheIssuerOfTheConfig(t *testing.T) {
	t.Parallel()
	assertion := func(context.Context) (string, error) { return "assertion-of-the-platform", nil }
	for name, c := range map[string]oauth.Config{
		"client credentials": {Grant: oauth.ClientCredentials, ClientID: "id", ClientSecret: "client-secret"},
		"workload":           {Grant: oauth.Workload, ClientID: "id", Assertion: assertion},
		"enterprise":         {Grant: oauth.Enterprise, ClientID: "id", Assertion: assertion},
		"a login":            {ClientID: "id", ClientSecret: "client-secret"},
	} {
		for _, issuer := range []string{"", "https://login.example.com"} {
			w := newWorld(t)
			c.Resource, c.Issuer, c.IDP = w.URL+"/mcp", issuer, oauth.IDP{Issuer: w.URL, TokenEndpoint: w.URL + "/token"}
			client := oauth.New(c, &store{}, w.Client())
			_, err := w.post(t, client, "")
			if c.Grant == "" {
				err = w.login(t, client)
			}
			var refused *oauth.Refused
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "issuer") {
				t.Errorf("%s, issuer %q: got %v", name, issuer, err)
			}
			if len(w.tokenRequests) > 0 {
				t.Errorf("%s, issuer %q: sent %v", name, issuer, w.tokenRequests)
			}
		}
		w := newWorld(t)
		c.Resource, c.Issuer, c.IDP = w.URL+"/mcp", w.URL+"/", oauth.IDP{Issuer: w.URL, TokenEndpoint: w.URL + "/token"}
		client := oauth.New(c, &store{}, w.Client())
		_, err := w.post(t, client, "")
		if c.Grant == "" {
			err = w.login(t, client)
		}
		if err != nil {
			t.Errorf("%s with its issuer: %v", name, err)
		}
	}
}

func TestLoopbackTakesTheRedirectOfItsLoginOnly(t *testing.T) {
	t.Parallel()
	l, err := oauth.NewLoopback(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stranger := func(query string) {
		t.Helper()
		resp, err := http.Get(l.Redirect() + query)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", query, resp.StatusCode)
		}
	}
	stranger("?code=early&state=s1")
	if err := l.Expect("https://login.example.com/authorize?state=s1"); err != nil {
		t.Fatal(err)
	}
	for _, query := range []string{"", "?code=2", "?code=2&state=", "?code=2&state=s", "?error=access_denied", "?code=2&state=s2&state=s1"} {
		stranger(query)
	}
	resp, err := http.Get(l.Redirect() + "?state=s1&code=1&error=%3Cscript%3E")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if strings.Contains(string(body), "<script>") {
		t.Errorf("the page shows %s", body)
	}
	if back, err := l.Wait(t.Context()); err != nil || !strings.Contains(back, "code=1") {
		t.Errorf("got %q, %v", back, err)
	}
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Bearer realm="a, b", error="insufficient_scope", scope="x y", DPoP algs="ES256"`)
	f.Add(base64.StdEncoding.EncodeToString([]byte("x")))
	f.Fuzz(func(t *testing.T, header string) {
		oauth.Parameters(header)
	})
}

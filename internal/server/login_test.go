package server

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/token"
)

// peopled is a server whose callers all need a token.
type peopled struct {
	*httptest.Server
	room  *app.App
	token string // of ann
}

func serveForPeople(t *testing.T, text func(at string) string) *peopled {
	t.Helper()
	return serveForPeopleBy(t, httptest.NewServer, text)
}

func serveForPeopleBy(t *testing.T, serve func(http.Handler) *httptest.Server, text func(at string) string) *peopled {
	t.Helper()
	s := &peopled{}
	var handler http.Handler
	s.Server = serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(s.Close)
	c, err := config.Parse("toolroom.yaml", []byte(text(s.URL)))
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/toolroom.yaml"
	if err := writeFile(file, text(s.URL)); err != nil {
		t.Fatal(err)
	}
	if s.room, err = app.Open(t.Context(), app.Options{ConfigFile: file}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.room.Close() })
	var closeHandler func()
	if handler, _, closeHandler, err = newHandler(s.room, c, Options{Version: "test"}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeHandler)
	if s.token, _, err = token.Create(t.Context(), s.room.Parts().Tokens, token.Options{Name: "ann", Groups: []string{"operators"}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFile(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }

// browser is a client with cookies that asks for documents.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

func visit(t *testing.T, c *http.Client, method, address, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var text strings.Builder
	if err := res.Write(&text); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, text.String()
}

func always(string) string { return "server: {auth: {required: always}}\n" }

func TestAPersonSignsInWithATokenAndOut(t *testing.T) {
	t.Parallel()
	s, c := serveForPeople(t, always), browser(t)
	if status, text := visit(t, c, "GET", s.URL, ""); status != 401 || !strings.Contains(text, "Sign in to Toolroom") {
		t.Fatalf("the page without a session: %d %s", status, text)
	}
	if status, text := visit(t, c, "GET", s.URL+"/docs", ""); status != 401 || !strings.Contains(text, "Sign in to Toolroom") {
		t.Errorf("the description of the API without a session: %d %s", status, text)
	}
	if status, text := visit(t, http.DefaultClient, "GET", s.URL, "", "Accept", "*/*"); status != 401 || !strings.Contains(text, "unauthenticated") {
		t.Errorf("a program without a token: %d %s", status, text)
	}
	if status, text := visit(t, c, "POST", s.URL+"/login", "token=wrong"); status != 401 || !strings.Contains(text, "not valid") {
		t.Errorf("a wrong token: %d %s", status, text)
	}
	status, page := visit(t, c, "POST", s.URL+"/login", "token="+s.token)
	if status != 200 || !strings.Contains(page, `data-who="ann"`) {
		t.Fatalf("after the login: %d %s", status, page)
	}
	if status, text := visit(t, c, "GET", s.URL+"/api/v1/tools?limit=1", ""); status != 200 {
		t.Errorf("the API with the session: %d %s", status, text)
	}
	if status, text := visit(t, c, "GET", s.URL+"/docs", ""); status != 200 || !strings.Contains(text, "POST /api/v1/tokens") {
		t.Errorf("the description of the API, which the page links to: %d %s", status, text)
	}
	if status, _ := visit(t, c, "POST", s.URL+"/mcp", "{}"); status != 401 {
		t.Errorf("MCP with the session of a page: %d", status)
	}
	call := func(headers ...string) int {
		status, _ := visit(t, c, "POST", s.URL+"/api/v1/call", `{"tool": "a:b"}`, append(headers, "Content-Type", "application/json")...)
		return status
	}
	if status := call(); status != 403 {
		t.Errorf("a change that was not made on the page: %d", status)
	}
	pageToken := regexp.MustCompile(`pageToken = '([^']+)'`).FindStringSubmatch(page)[1]
	if status := call("Toolroom-Page", pageToken); status != 404 { // the tool is not there
		t.Errorf("a call from the page: %d", status)
	}
	if status, text := visit(t, c, "POST", s.URL+"/logout", ""); status != 200 || !strings.Contains(text, "Sign in") {
		t.Errorf("after the logout: %d %s", status, text)
	}
	if status, _ := visit(t, c, "GET", s.URL+"/api/v1/tools", ""); status != 401 {
		t.Errorf("the API after the logout: %d", status)
	}
}

func TestARevokedTokenEndsTheSessionsOfThePage(t *testing.T) {
	t.Parallel()
	s, c := serveForPeople(t, always), browser(t)
	visit(t, c, "POST", s.URL+"/login", "token="+s.token)
	all, err := s.room.Parts().Tokens.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.room.Parts().Tokens.RevokeToken(t.Context(), all[0].ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for { // a verifier remembers a token for a moment
		status, _ := visit(t, c, "GET", s.URL+"/api/v1/tools", "")
		if status == 401 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("with a revoked token: %d", status)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestForgedAndForeignCookiesAreNoSession(t *testing.T) {
	t.Parallel()
	s, other := serveForPeople(t, always), serveForPeople(t, always)
	foreign := browser(t)
	visit(t, foreign, "POST", other.URL+"/login", "token="+other.token)
	at, err := url.Parse(other.URL)
	if err != nil {
		t.Fatal(err)
	}
	plain := base64.RawURLEncoding.EncodeToString([]byte(`{"who": {"subject": "ann"}, "expires": "2999-01-01T00:00:00Z"}`))
	for _, value := range []string{"", "x", plain, foreign.Jar.Cookies(at)[0].Value} {
		if status, _ := visit(t, http.DefaultClient, "GET", s.URL+"/api/v1/tools", "", "Cookie", "toolroom_session="+value); status != 401 {
			t.Errorf("the cookie %.20q: %d", value, status)
		}
	}
}

func TestTheSignInFormIsBounded(t *testing.T) {
	t.Parallel()
	s := serveForPeople(t, always)
	if status, text := visit(t, browser(t), "POST", s.URL+"/login", "token="+s.token+"&more="+strings.Repeat("x", 20<<10)); status != 400 || !strings.Contains(text, "could not be read") {
		t.Errorf("a form of 20 KiB: %d %.200s", status, text)
	}
	// A token in the address would be in logs and in the history.
	if status, _ := visit(t, browser(t), "POST", s.URL+"/login?token="+s.token, "a=b"); status != 401 {
		t.Errorf("a token in the address: %d", status)
	}
}

func TestLogoutEndsTheSessionForWhoeverHasItsCookie(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := serveWithIDP(t, p)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for how, enter := range map[string]func(*http.Client){
		"token":    func(c *http.Client) { visit(t, c, "POST", s.URL+"/login", "token="+s.token) },
		"provider": func(c *http.Client) { visit(t, c, "GET", s.URL+"/login/oidc", "") },
	} {
		c, other := browser(t), browser(t)
		enter(c)
		enter(other)
		copied := c.Jar.Cookies(at)
		if len(copied) != 1 {
			t.Fatalf("%s: cookies %v", how, copied)
		}
		tools := func() int {
			status, _ := visit(t, http.DefaultClient, "GET", s.URL+"/api/v1/tools", "", "Cookie", copied[0].Name+"="+copied[0].Value)
			return status
		}
		if status := tools(); status != 200 {
			t.Fatalf("%s: a copy of the cookie before the logout: %d", how, status)
		}
		visit(t, c, "POST", s.URL+"/logout", "")
		if status := tools(); status != 401 {
			t.Errorf("%s: a copy of the cookie after the logout: %d", how, status)
		}
		if status, _ := visit(t, other, "GET", s.URL+"/api/v1/tools", ""); status != 200 {
			t.Errorf("%s: another session of the person has ended too: %d", how, status)
		}
	}
}

func TestACookieOfASiblingHostSignsNobodyIn(t *testing.T) {
	t.Parallel()
	s := serveForPeopleBy(t, httptest.NewTLSServer, always)
	c := s.Client()
	c.Jar = browser(t).Jar
	visit(t, c, "POST", s.URL+"/login", "token="+s.token)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	cookies := c.Jar.Cookies(at)
	if len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "__Host-") {
		t.Fatalf("browsers accept these cookies from other hosts of the domain: %v", cookies)
	}
	c.Jar = nil
	for name, want := range map[string]int{cookies[0].Name: 200, strings.TrimPrefix(cookies[0].Name, "__Host-"): 401} {
		if status, _ := visit(t, c, "GET", s.URL+"/api/v1/tools", "", "Cookie", name+"="+cookies[0].Value); status != want {
			t.Errorf("%s: %d, want %d", name, status, want)
		}
	}
	// The prefix needs these attributes.
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	_, text := visit(t, c, "POST", s.URL+"/login", "token="+s.token)
	set := regexp.MustCompile(`(?m)^Set-Cookie: (.*)$`).FindStringSubmatch(text)
	if set == nil || !strings.Contains(set[1], "; Path=/;") || !strings.Contains(set[1], "; Secure") || strings.Contains(set[1], "Domain=") {
		t.Errorf("the cookie is set by %q", set)
	}
}

// provider is an OpenID Connect provider that lets in whoever comes.
type idp struct {
	*httptest.Server
	mu     sync.Mutex
	asked  map[string]url.Values // by code
	change func(jwt.MapClaims)
	info   jwt.MapClaims // of the person; nil means that the request fails
	moved  string        // address to which the token endpoint redirects
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{asked: map[string]url.Values{}, change: func(jwt.MapClaims) {}}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]string{"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "userinfo_endpoint": p.URL + "/userinfo"})
	})
	mux.HandleFunc("/userinfo", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.info == nil || r.Header.Get("Authorization") != "Bearer a" {
			w.WriteHeader(401)
			return
		}
		answer(w, p.info)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		b64 := base64.RawURLEncoding.EncodeToString
		answer(w, map[string]any{"keys": []map[string]string{{"kty": "RSA", "kid": "1", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("/authorize", func(w http.ResponseWriter, r *http.Request) {
		q, code := r.URL.Query(), rand.Text()
		p.mu.Lock()
		p.asked[code] = q
		p.mu.Unlock()
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		asked, change, moved := p.asked[r.FormValue("code")], p.change, p.moved
		p.mu.Unlock()
		if moved != "" {
			http.Redirect(w, r, moved, http.StatusTemporaryRedirect)
			return
		}
		proof := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		user, password, _ := r.BasicAuth()
		if asked == nil || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(proof[:]) || user != "room" || password != "s3cret" {
			w.WriteHeader(400)
			answer(w, map[string]string{"error": "invalid_grant"})
			return
		}
		claims := jwt.MapClaims{"iss": p.URL, "aud": "room", "sub": "bea", "nonce": asked.Get("nonce"), "groups": []string{"operators"}, "exp": time.Now().Add(time.Hour).Unix()}
		change(claims)
		tok := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		tok.Header["kid"] = "1"
		text, err := tok.SignedString(key)
		if err != nil {
			t.Error(err)
		}
		answer(w, map[string]string{"id_token": text, "access_token": "a", "token_type": "Bearer"})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *idp) config(at string) string {
	return "server:\n  url: " + at + "\n  auth:\n    required: always\n    login: {issuer: \"" + p.URL + "\", client_id: room, client_secret: \"secret://oidc/secret\", groups_claim: groups}\n"
}

func serveWithIDP(t *testing.T, p *idp) *peopled {
	t.Helper()
	s := serveForPeople(t, p.config)
	if err := s.room.Parts().Secrets.Set(t.Context(), secret.Ref{Scope: "oidc", Name: "secret"}, "s3cret"); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPersonSignsInAtAnOpenIDProvider(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s, c := serveWithIDP(t, p), browser(t)
	if _, text := visit(t, c, "GET", s.URL, ""); !strings.Contains(text, "/login/oidc") {
		t.Fatalf("the form does not name the provider: %s", text)
	}
	status, page := visit(t, c, "GET", s.URL+"/login/oidc", "")
	if status != 200 || !strings.Contains(page, strings.TrimPrefix(p.URL, "http://")+"#bea") {
		t.Fatalf("after the login: %d %s", status, page)
	}
	if status, text := visit(t, c, "GET", s.URL+"/metrics", ""); status == 200 {
		t.Errorf("a session is for the page alone, but /metrics: %s", text)
	}
}

func TestALoginThatIsNotOursIsRefused(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	s := serveWithIDP(t, p)
	for what, change := range map[string]func(jwt.MapClaims){
		"another nonce":  func(c jwt.MapClaims) { c["nonce"] = "x" },
		"no nonce":       func(c jwt.MapClaims) { delete(c, "nonce") },
		"another client": func(c jwt.MapClaims) { c["aud"] = "other" },
		"another party":  func(c jwt.MapClaims) { c["azp"] = "other" },
		"expired":        func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"no subject":     func(c jwt.MapClaims) { delete(c, "sub"); c["client_id"] = "x" },
	} {
		p.mu.Lock()
		p.change = change
		p.mu.Unlock()
		c := browser(t)
		if status, text := visit(t, c, "GET", s.URL+"/login/oidc", ""); status != 502 {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	p.change = func(jwt.MapClaims) {}
	// A link with a code of the attacker does not sign a victim in.
	if status, _ := visit(t, browser(t), "GET", s.URL+"/login/callback?code=x&state=y", ""); status != 400 {
		t.Errorf("a login that this browser did not begin: %d", status)
	}
}

func TestTheCodeOfALoginFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("another server got the code %q", r.FormValue("code"))
	}))
	t.Cleanup(other.Close)
	p := newIDP(t)
	p.moved = other.URL
	s := serveWithIDP(t, p)
	if status, text := visit(t, browser(t), "GET", s.URL+"/login/oidc", ""); status != 502 {
		t.Errorf("%d %s", status, text)
	}
}

func TestGroupsThatTheIDTokenLacksComeFromTheUserInfo(t *testing.T) {
	t.Parallel()
	p := newIDP(t)
	p.change = func(c jwt.MapClaims) { delete(c, "groups") }
	s := serveWithIDP(t, p)
	for what, test := range map[string]struct {
		info    jwt.MapClaims
		status  int
		sources int // the status of a list that only operators may see
	}{
		"an operator":              {jwt.MapClaims{"sub": "bea", "groups": []string{"staff", "operators"}}, 200, 200},
		"one group without a list": {jwt.MapClaims{"sub": "bea", "groups": "operators"}, 200, 200},
		"another group":            {jwt.MapClaims{"sub": "bea", "groups": []string{"staff"}}, 200, 403},
		"no group":                 {jwt.MapClaims{"sub": "bea"}, 200, 403},
		"another person":           {jwt.MapClaims{"sub": "eve", "groups": []string{"operators"}}, 502, 401},
		"no answer":                {nil, 502, 401},
	} {
		p.mu.Lock()
		p.info = test.info
		p.mu.Unlock()
		c := browser(t)
		if status, text := visit(t, c, "GET", s.URL+"/login/oidc", ""); status != test.status {
			t.Errorf("%s: the sign-in: %d %s", what, status, text)
		}
		if status, text := visit(t, c, "GET", s.URL+"/api/v1/sources", ""); status != test.sources {
			t.Errorf("%s: the sources: %d %s", what, status, text)
		}
	}
}

//go:build integration

package integration

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// vault is an MCP server with the Go SDK that requires a token of its issuer. Its tool "write"
// requires the scope vault:write. It checks the audience of tokens but not their signature.
type vault struct {
	*httptest.Server
	issuer string

	mu      sync.Mutex
	dropped map[string]bool
	seen    []http.Header
}

type claims struct {
	Sub, Aud, Scope, Iss string
	ClientID             string `json:"client_id"`
}

func (r *room) startVault(issuer string) *vault {
	v := &vault{issuer: issuer, dropped: map[string]bool{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "vault", Version: "1"}, nil)
	says := func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		c, _ := v.claims(req.Extra.Header)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "for " + c.Sub + " through " + c.ClientID}}}, nil, nil
	}
	mcp.AddTool(server, &mcp.Tool{Name: "read"}, says)
	mcp.AddTool(server, &mcp.Tool{Name: "write"}, says)
	tools := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	v.Server = httptest.NewServer(mux)
	r.t.Cleanup(v.Close)
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(object{"resource": v.URL + "/mcp", "authorization_servers": []string{issuer}, "scopes_supported": []string{"vault"}})
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, req *http.Request) {
		v.mu.Lock()
		v.seen = append(v.seen, req.Header.Clone())
		v.mu.Unlock()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		where := `resource_metadata="` + v.URL + `/.well-known/oauth-protected-resource/mcp"`
		c, ok := v.claims(req.Header)
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", `Bearer scope="vault", `+where)
			http.Error(w, "no token", http.StatusUnauthorized)
		case bytes.Contains(body, []byte(`"tools/call"`)) && bytes.Contains(body, []byte(`"write"`)) && !slices.Contains(strings.Fields(c.Scope), "vault:write"):
			w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="vault:write", `+where)
			http.Error(w, "more is needed", http.StatusForbidden)
		default:
			tools.ServeHTTP(w, req)
		}
	})
	return v
}

// claims returns the claims of a request's token, which must be for this server.
func (v *vault) claims(h http.Header) (c claims, ok bool) {
	_, token, _ := strings.Cut(h.Get("Authorization"), " ")
	v.mu.Lock()
	defer v.mu.Unlock()
	parts := strings.Split(token, ".")
	if len(parts) != 3 || v.dropped[token] {
		return c, false
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	return c, err == nil && json.Unmarshal(data, &c) == nil && c.Iss == v.issuer && c.Aud == v.URL+"/mcp"
}

// invalidate makes all tokens of a person that v has seen invalid.
func (v *vault) invalidate(person string) {
	v.mu.Lock()
	seen := slices.Clone(v.seen)
	v.mu.Unlock()
	for _, h := range seen {
		if c, ok := v.claims(h); ok && c.Sub == person {
			_, token, _ := strings.Cut(h.Get("Authorization"), " ")
			v.mu.Lock()
			v.dropped[token] = true
			v.mu.Unlock()
		}
	}
}

func (v *vault) headers(t *testing.T) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return encode(t, v.seen)
}

var loginAddress = regexp.MustCompile(`(?m)^http\S+client_id=\S+$`)

// login runs "sources login" for a caller, and visits the printed address as a person. It
// returns the parameters of the address.
func (r *room) login(source, as, person string) url.Values {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), waitTimeout)
	defer cancel()
	args := []string{"sources", "login", source}
	if as != "" {
		args = append(args, "--as", as)
	}
	c := r.command(ctx, binary(r.t), args...)
	c.Env[0] = "PATH=" + filepath.Join(r.dir, "programs") + ":" + os.Getenv("PATH")
	c.Env = append(c.Env, "BROWSER="+filepath.Join(r.dir, "programs", "xdg-open"), "DISPLAY=:0")
	stderr, err := c.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	var said strings.Builder
	var asked url.Values
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if address := loginAddress.FindString(lines.Text()); address != "" {
			u, err := url.Parse(address)
			if err != nil {
				r.t.Fatal(err)
			}
			asked = u.Query()
			if asked.Get("code_challenge") == "" || asked.Get("code_challenge_method") != "S256" {
				r.t.Errorf("the address has no PKCE: %s", address)
			}
			r.completeLogin(address, person)
		}
	}
	if err := c.Wait(); err != nil || asked == nil {
		r.t.Fatalf("the login of %s failed: %v\n%s", person, err, &said)
	}
	if opened, err := os.ReadFile(filepath.Join(r.dir, "opened")); err == nil {
		r.t.Errorf("it opened a browser: %s", opened)
	}
	return asked
}

// completeLogin completes a login like a person's browser.
func (r *room) completeLogin(address, person string) {
	r.t.Helper()
	if at, page := r.visit(r.browserOf(person), address); !strings.Contains(page, "You are logged in") {
		r.t.Errorf("the browser ended at %s: %s", at, page)
	}
}

// browserOf returns a client with cookies that the authorization server takes for a person.
func (r *room) browserOf(person string) *http.Client {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return &http.Client{Jar: jar, CheckRedirect: func(req *http.Request, _ []*http.Request) error {
		req.Header.Set("Person", person)
		return nil
	}}
}

// visit returns where a browser ended that began at an address, and the document there.
func (r *room) visit(browser *http.Client, address string) (at, page string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	resp, err := browser.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.Request.URL.String(), string(data)
}

// installFakeBrowsers puts fake browsers on the path that record whether they are started.
func (r *room) installFakeBrowsers() {
	r.t.Helper()
	dir := filepath.Join(r.dir, "programs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{"xdg-open", "open", "x-www-browser", "sensible-browser", "chromium", "firefox"} {
		script := "#!/bin/sh\necho " + name + ` "$@" >>` + filepath.Join(r.dir, "opened") + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
}

// trustIssuer returns the config that allows an authorization server on this machine. Only an
// operator can do so, because the MCP server that names it is not trusted.
func trustIssuer(issuer string) object {
	return object{"egress": object{"allow": []string{strings.TrimPrefix(issuer, "http://")}}}
}

// callAs calls a tool over HTTP with a caller's token.
func (r *room) callAs(s *server, token, tool string) toolroom.Result {
	r.t.Helper()
	out := r.runProgram("curl", "-s", s.url+"/api/v1/call", "-H", "Authorization: Bearer "+token, "-d", encode(r.t, object{"tool": tool, "arguments": object{}}))
	return decode[toolroom.Result](r.t, out.stdout)
}

func resultText(r toolroom.Result) string {
	if r.Error != nil {
		return string(r.Error.Code) + ": " + r.Error.Message + " (" + r.Error.Hint + ")"
	}
	var b strings.Builder
	for _, c := range r.Content {
		b.WriteString(c.Text)
	}
	return b.String()
}

func TestLoginsAtAnAuthorizationServerAreEachCallersOwn(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	issuer, done := r.startIssuer("vault vault:write", nil, nil)
	v := r.startVault(issuer)
	r.configure(object{"vault": object{"mcp": object{"url": v.URL + "/mcp"}}}, trustIssuer(issuer), object{"server": object{"listen": "127.0.0.1:0", "auth": object{"required": "always"}}})
	r.installFakeBrowsers()
	tokens := map[string]string{}
	for _, name := range []string{"ann", "bob", "eve"} {
		tokens[name] = decode[struct{ Token string }](t, r.toolroom(0, "token", "create", name, "--json").stdout).Token
	}
	r.login("vault", "", "operator") // the operator's login is used to list the tools
	if asked := r.login("vault", "ann", "ada"); asked.Get("resource") != v.URL+"/mcp" || asked.Get("scope") != "vault" {
		t.Errorf("the login of ann asked for %v", asked)
	}
	r.login("vault", "bob", "ben")
	s := r.serve()
	for name, want := range map[string]string{"ann": "for ada", "bob": "for ben"} {
		if got := resultText(r.callAs(s, tokens[name], "vault:read")); !strings.HasPrefix(got, want) {
			t.Errorf("%s got %q, want %q", name, got, want)
		}
	}
	if got := resultText(r.callAs(s, tokens["eve"], "vault:read")); !strings.HasPrefix(got, "unauthenticated") || !strings.Contains(got, "--as eve") {
		t.Errorf("who has no login got %q", got)
	}

	// Many concurrent calls find that the token is invalid: it is renewed once.
	v.invalidate("ada")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := resultText(r.callAs(s, tokens["ann"], "vault:read")); !strings.HasPrefix(got, "for ada") {
				t.Errorf("after her token ended ann got %q", got)
			}
		})
	}
	all.Wait()
	count := map[string]int{}
	for _, g := range done() {
		count[g.Grant]++
	}
	if count["refresh_token"] != 1 || count["authorization_code"] != 3 || count[""] != 3 {
		t.Errorf("tokens were given %v, of three logins with a registration each and one renewal", done())
	}

	// The error of a call that needs more scopes names the command to get them.
	if got := resultText(r.callAs(s, tokens["ann"], "vault:write")); !strings.HasPrefix(got, "unauthenticated") || !strings.Contains(got, "--as ann") {
		t.Errorf("a call that needs more got %q", got)
	}
	if asked := strings.Fields(r.login("vault", "ann", "ada").Get("scope")); !slices.Contains(asked, "vault") || !slices.Contains(asked, "vault:write") {
		t.Errorf("the step up asked for %q", asked)
	}
	if got := resultText(r.callAs(s, tokens["ann"], "vault:write")); !strings.HasPrefix(got, "for ada") {
		t.Errorf("after the step up ann got %q", got)
	}
	for name, token := range tokens {
		if strings.Contains(v.headers(t), token) {
			t.Errorf("the server was sent the token that %s has for Toolroom", name)
		}
	}
}

func TestAMachineProvesItselfWithASecretOrAPrivateKey(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	coordinate := base64.RawURLEncoding.EncodeToString
	machine := func(id string, more object) object {
		c := object{"client_id": id, "grant_types": []string{"client_credentials"}, "redirect_uris": []string{}, "response_types": []string{}}
		for name, value := range more {
			c[name] = value
		}
		return c
	}
	issuer, done := r.startIssuer("vault vault:write", []object{
		machine("secretive", object{"client_secret": "a-secret-of-the-machine"}),
		machine("keyed", object{
			"token_endpoint_auth_method": "private_key_jwt", "token_endpoint_auth_signing_alg": "ES256",
			"jwks": object{"keys": []object{{"kty": "EC", "crv": "P-256", "kid": "k1", "alg": "ES256", "use": "sig", "x": coordinate(public[1:33]), "y": coordinate(public[33:])}}},
		}),
	}, nil)
	v := r.startVault(issuer)
	source := func(id string, more object) object {
		oauth := object{"grant": "client_credentials", "client_id": id, "issuer": issuer}
		for name, value := range more {
			oauth[name] = value
		}
		return object{"mcp": object{"url": v.URL + "/mcp", "oauth": oauth}}
	}
	r.configure(object{
		"secretive": source("secretive", object{"client_secret": "a-secret-of-the-machine"}),
		"keyed":     source("keyed", object{"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "key_id": "k1"}),
	})
	for _, id := range []string{"secretive", "keyed"} {
		if got := resultText(*r.callJSON(0, id+":read", "{}")); !strings.HasSuffix(got, "through "+id) {
			t.Errorf("%s: %q", id, got)
		}
		// More scopes need no person here.
		if got := resultText(*r.callJSON(0, id+":write", "{}")); !strings.HasSuffix(got, "through "+id) {
			t.Errorf("%s, what needs more: %q", id, got)
		}
	}
	for _, g := range done() {
		if want := map[string]string{"secretive": "client_secret_basic", "keyed": "private_key_jwt"}[g.Client]; g.Grant != "client_credentials" || g.Method != want {
			t.Errorf("a token was given by %+v", g)
		}
	}
}

func TestAClientIsKnownByItsMetadataDocument(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	r.installFakeBrowsers()
	var document string
	documents := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, document)
	}))
	t.Cleanup(documents.Close)
	id := documents.URL + "/toolroom.json"
	document = encode(t, object{
		"client_id": id, "client_name": "Toolroom", "application_type": "native", "redirect_uris": []string{"http://127.0.0.1/callback"},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
	})
	authority := r.write("authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: documents.Certificate().Raw})))
	issuer, done := r.startIssuer("vault", nil, []string{"NODE_EXTRA_CA_CERTS=" + authority})
	v := r.startVault(issuer)
	r.configure(object{"vault": object{"mcp": object{"url": v.URL + "/mcp", "oauth": object{"metadata_url": id}}}}, trustIssuer(issuer))
	r.login("vault", "", "ada")
	if got := resultText(*r.callJSON(0, "vault:read", "{}")); got != "for ada through "+id {
		t.Errorf("the call got %q", got)
	}
	if got := done(); len(got) != 1 || got[0].Client != id || got[0].Grant != "authorization_code" {
		t.Errorf("the authorization server did %+v", got)
	}
}

// The provider has groups in its user info alone, as OpenID Connect prescribes for this flow.
func TestPeopleSignInToThePageAtAnOpenIDProvider(t *testing.T) {
	t.Parallel()
	r := bareRoom(t)
	address := freeAddress(t)
	issuer, _ := r.startIssuer("page", []object{{
		"client_id": "page", "client_secret": "a-secret-of-the-page", "redirect_uris": []string{"http://" + address + "/login/callback"},
		"grant_types": []string{"authorization_code"}, "response_types": []string{"code"},
	}}, nil)
	r.configure(nil, object{"server": object{"listen": address, "url": "http://" + address, "auth": object{
		"required": "always", "login": object{"issuer": issuer, "client_id": "page", "client_secret": "secret://page/login", "groups_claim": "groups"},
	}}})
	c := r.command(t.Context(), binary(t), "secret", "set", "page/login")
	c.Stdin = strings.NewReader("a-secret-of-the-page")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := r.serveAt(address)
	for person, want := range map[string]string{"olga": `{"sources":[`, "ada": "only an operator"} {
		browser := r.browserOf(person)
		at, page := r.visit(browser, s.url+"/login/oidc")
		if who := `data-who="` + strings.TrimPrefix(issuer, "http://") + "#" + person + `"`; at != s.url+"/" || !strings.Contains(page, who) {
			t.Fatalf("%s ended at %s: %s", person, at, page)
		}
		if _, sources := r.visit(browser, s.url+"/api/v1/sources"); !strings.Contains(sources, want) {
			t.Errorf("the sources for %s: %s", person, sources)
		}
	}
}

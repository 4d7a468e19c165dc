package oauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/toolroom/toolroom/internal/oauth"
)

func (w *world) machine(s *store, c oauth.Config) *oauth.Client {
	c.Grant, c.Issuer, c.ClientID = oauth.ClientCredentials, w.URL, "my id"
	return w.with(s, c)
}

func TestAClientAuthenticatesAsItsServerWants(t *testing.T) {
	t.Parallel()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("my+id:s%3Acret"))
	for name, tt := range map[string]struct {
		secret  string
		methods []string
		basic   string
		form    map[string]string
	}{
		"by default":     {"s:cret", nil, basic, map[string]string{"client_id": "", "client_secret": ""}},
		"basic":          {"s:cret", []string{"client_secret_post", "client_secret_basic"}, basic, map[string]string{"client_id": "", "client_secret": ""}},
		"post":           {"s:cret", []string{"client_secret_post"}, "", map[string]string{"client_id": "my id", "client_secret": "s:cret"}},
		"another method": {"s:cret", []string{"client_secret_jwt"}, basic, map[string]string{"client_id": "", "client_secret": ""}},
		"no secret":      {"", []string{"client_secret_post"}, "", map[string]string{"client_id": "my id", "client_secret": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.auth = map[string]any{"token_endpoint_auth_methods_supported": tt.methods}
			w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") != "application/json" || r.Header.Get("DPoP") != "" {
					t.Errorf("asked with %v", r.Header)
				}
				w.token(rw, r)
			})
			if _, err := w.post(t, w.machine(&store{}, oauth.Config{ClientSecret: tt.secret}), ""); err != nil {
				t.Fatal(err)
			}
			form := w.forms()[0]
			for key, want := range tt.form {
				if form.Get(key) != want {
					t.Errorf("%s is %q", key, form.Get(key))
				}
			}
			if w.basic[0] != tt.basic {
				t.Errorf("Authorization is %q", w.basic[0])
			}
		})
	}
}

func encodePEM(t *testing.T, kind string, der []byte, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestAClientAuthenticatesWithAnyUsualKey(t *testing.T) {
	t.Parallel()
	type named struct {
		key crypto.Signer
		pem string
	}
	keys := map[string]named{}
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		keys[alg] = named{key, encodePEM(t, "PRIVATE KEY", der, err)}
		der, err = x509.MarshalECPrivateKey(key)
		keys[alg+" SEC 1"] = named{key, encodePEM(t, "EC PRIVATE KEY", der, err)}
	}
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keys["RS256"] = named{rsaKey, encodePEM(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), nil)}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(edKey)
	keys["EdDSA"] = named{edKey, encodePEM(t, "PRIVATE KEY", der, err)}
	for name, k := range keys {
		for _, id := range []string{"", "key-1"} {
			w := newWorld(t)
			if _, err := w.post(t, w.machine(&store{}, oauth.Config{ClientSecret: "unused", PrivateKey: k.pem, KeyID: id}), ""); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			form := w.forms()[0]
			alg, _, _ := strings.Cut(name, " ")
			token, err := jwt.Parse(form.Get("client_assertion"), func(*jwt.Token) (any, error) { return k.key.Public(), nil },
				jwt.WithValidMethods([]string{alg}), jwt.WithAudience(w.URL), jwt.WithIssuer("my id"), jwt.WithSubject("my id"), jwt.WithExpirationRequired(), jwt.WithIssuedAt())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			claims := token.Claims.(jwt.MapClaims)
			kid, has := token.Header["kid"]
			if has != (id != "") || has && kid != id || claims["jti"] == "" || claims["exp"].(float64)-claims["iat"].(float64) != 120 {
				t.Errorf("%s: %v, %v", name, token.Header, claims)
			}
			if form.Get("client_id") != "my id" || form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || form.Has("client_secret") || w.basic[0] != "" {
				t.Errorf("%s: %v", name, form)
			}
		}
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err = x509.MarshalPKCS8PrivateKey(p224)
	for text, says := range map[string]string{
		"secret":                     "not in PEM",
		encodePEM(t, "X", nil, nil):  "cannot be read",
		encodePEM(t, "EC", der, err): "unsupported kind",
	} {
		w := newWorld(t)
		if _, err := w.post(t, w.machine(&store{}, oauth.Config{PrivateKey: text}), ""); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestAnswersOfATokenEndpoint(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status  int
		answer  string
		says    string // if it fails
		refused bool
	}{
		"no token":         {200, `{"token_type":"Bearer"}`, "answered without a token", false},
		"no JSON":          {200, `{"access_token":"x"`, "answered without a token", false},
		"a wrong time":     {200, `{"access_token":"x","expires_in":"soon"}`, "answered without a token", false},
		"refused":          {400, `{"error":"invalid_client"}`, "the authorization server refused: invalid_client", true},
		"failed":           {502, `<html>`, "answered with status 502", false},
		"no code":          {400, `{"error_description":"no"}`, "answered with status 400", false},
		"a wrong code":     {400, `{"error":5}`, "answered with status 400", false},
		"a nonce is named": {400, `{"error":"use_dpop_nonce"}`, "use_dpop_nonce", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			asked := 0
			w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
				asked++
				rw.WriteHeader(tt.status)
				_, _ = io.WriteString(rw, tt.answer)
			})
			_, err := w.post(t, w.machine(&store{}, oauth.Config{ClientSecret: "s"}), "")
			var refused *oauth.Refused
			if err == nil || !strings.Contains(err.Error(), tt.says) || errors.As(err, &refused) != tt.refused || asked != 1 {
				t.Errorf("after %d requests: %v", asked, err)
			}
		})
	}
}

func TestSecretsDoNotFollowARedirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s was sent elsewhere", r.Method) }))
	t.Cleanup(elsewhere.Close)
	w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if _, err := w.post(t, w.machine(&store{}, oauth.Config{ClientSecret: "s"}), ""); err == nil || !strings.Contains(err.Error(), "status 307") {
		t.Error(err)
	}
}

func TestATokenIsRenewedBeforeItExpires(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, tt := range map[string]struct {
		expires any // in the store, or nil
		renewed bool
	}{
		"without an end": {nil, false},
		"in an hour":     {now.Add(time.Hour), false},
		"in ten seconds": {now.Add(10 * time.Second), true},
		"an hour ago":    {now.Add(-time.Hour), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), &store{}
			if err := w.login(t, w.client(s)); err != nil {
				t.Fatal(err)
			}
			s.edit(t, w.URL, func(grant map[string]any) {
				delete(grant, "expires")
				if tt.expires != nil {
					grant["expires"] = tt.expires
				}
			})
			seen, locks := w.seen.Load(), s.locks
			c := w.client(s)
			for range 3 {
				if _, err := w.post(t, c, ""); err != nil {
					t.Fatal(err)
				}
			}
			forms := w.forms()
			if renewed := len(forms) == 2; renewed != tt.renewed || len(forms) > 2 || w.seen.Load()-seen != 3 {
				t.Errorf("%d requests for tokens, %d for the resource", len(forms), w.seen.Load()-seen)
			}
			want := 0
			if tt.renewed {
				want = 1
				if form := forms[1]; form.Get("resource") != w.URL+"/mcp" || form.Get("client_id") != "registered" {
					t.Errorf("renewed with %v", form)
				}
			}
			if s.locks-locks != want {
				t.Errorf("the store was locked %d times", s.locks-locks)
			}
		})
	}
}

func TestATokenKeepsWhatItsAnswerLeavesOut(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	w.wantScope = "read"
	c := w.client(s)
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	type grant struct {
		RefreshToken string    `json:"refresh_token"`
		TokenType    string    `json:"token_type"`
		Expires      time.Time `json:"expires"`
		Scopes       []string  `json:"scopes"`
	}
	stored := func() grant {
		t.Helper()
		var record struct{ Grants map[string]grant }
		if err := json.Unmarshal(s.data, &record); err != nil {
			t.Fatal(err)
		}
		return record.Grants[w.URL]
	}
	first := stored()
	if first.TokenType != "Bearer" || !slices.Equal(first.Scopes, []string{"read"}) || time.Until(first.Expires) > time.Hour || time.Until(first.Expires) < 50*time.Minute {
		t.Errorf("%+v", first)
	}
	for name, tt := range map[string]struct {
		answer map[string]any
		check  func(grant) bool
	}{
		"nothing": {nil, func(g grant) bool {
			return g.TokenType == "Bearer" && slices.Equal(g.Scopes, []string{"read"}) && g.Expires.IsZero()
		}},
		"no scope":     {map[string]any{"scope": " "}, func(g grant) bool { return slices.Equal(g.Scopes, []string{"read"}) }},
		"other scopes": {map[string]any{"scope": "write  more"}, func(g grant) bool { return slices.Equal(g.Scopes, []string{"write", "more"}) }},
		"long ago":     {map[string]any{"expires_in": -5}, func(g grant) bool { return g.Expires.IsZero() }},
		"for ever": {map[string]any{"expires_in": 1e300}, func(g grant) bool {
			return time.Until(g.Expires) > 365*24*time.Hour && time.Until(g.Expires) < 367*24*time.Hour
		}},
		"another token": {map[string]any{"refresh_token": "other"}, func(g grant) bool { return g.RefreshToken == "other" }},
	} {
		s.edit(t, w.URL, func(g map[string]any) {
			g["refresh_token"], g["scopes"], g["expires"] = first.RefreshToken, []string{"read"}, "2001-01-01T00:00:00Z"
		})
		w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
			w.mu.Lock()
			w.valid["new"] = "read"
			w.mu.Unlock()
			answer := map[string]any{"access_token": "new"}
			maps.Copy(answer, tt.answer)
			reply(rw, http.StatusOK, answer)
		})
		if _, err := w.post(t, w.client(s), ""); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := stored()
		if !tt.check(got) || tt.answer["refresh_token"] == nil && got.RefreshToken != first.RefreshToken {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// Another client of the issuer cannot use the token.
	w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
		reply(rw, http.StatusOK, map[string]any{"access_token": "new"})
	})
	if err := w.login(t, w.with(s, oauth.Config{ClientID: "another"})); err != nil || stored().RefreshToken != "" {
		t.Errorf("%v: %+v", err, stored())
	}
}

// Whoever does not see the lock, on another machine, may use a refresh token meanwhile.
func TestARefreshTokenThatAnotherClientUsedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(grant map[string]any)
		logout    bool
		reached   bool
		kept      string // the refresh token that remains
	}{
		"it is renewed":        {meanwhile: func(g map[string]any) { g["access_token"], g["refresh_token"], g["expires"] = "theirs", "newer", nil }, reached: true, kept: "newer"},
		"it has expired again": {meanwhile: func(g map[string]any) { g["access_token"], g["refresh_token"] = "theirs", "newer" }, kept: "newer"},
		"nobody was there":     {meanwhile: func(map[string]any) {}},
		"somebody logged out":  {logout: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s := newWorld(t), &store{}
			if err := w.login(t, w.client(s)); err != nil {
				t.Fatal(err)
			}
			s.edit(t, w.URL, func(g map[string]any) { g["expires"] = "2001-01-01T00:00:00Z" })
			w.drop()
			w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				w.mu.Lock()
				w.valid["theirs"] = ""
				w.tokenRequests = append(w.tokenRequests, r.PostForm)
				w.mu.Unlock()
				if len(w.forms()) == 2 { // the login was the first
					if tt.logout {
						s.mu.Lock()
						s.data = nil
						s.mu.Unlock()
					} else {
						s.edit(t, w.URL, tt.meanwhile)
					}
				}
				reply(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
			})
			c := w.client(s)
			token, err := c.AccessToken(t.Context())
			if (err == nil) != tt.reached || tt.reached && token != "theirs" {
				t.Errorf("%q, %v", token, err)
			}
			var needed *oauth.Needed
			if !tt.reached && !errors.As(err, &needed) {
				t.Error(err)
			}
			s.mu.Lock()
			data := string(s.data)
			s.mu.Unlock()
			if strings.Contains(data, `"refresh_token":"`+tt.kept) != (tt.kept != "") {
				t.Errorf("stored: %s", data)
			}
			if _, err := w.client(s).AccessToken(t.Context()); tt.kept == "" && len(w.forms()) != 2 {
				t.Errorf("a refused token was sent again: %v", err)
			}
		})
	}
}

func TestARenewalThatFailsIsAnErrorAndNoLogout(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	c := w.client(s)
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	w.drop()
	w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadGateway) })
	var needed *oauth.Needed
	if _, err := w.post(t, c, ""); err == nil || !strings.Contains(err.Error(), "status 502") || errors.As(err, &needed) {
		t.Error(err)
	}
	s.edit(t, w.URL, func(g map[string]any) { g["expires"] = "2001-01-01T00:00:00Z" })
	if _, err := w.post(t, w.client(s), ""); err == nil || !strings.Contains(err.Error(), "status 502") {
		t.Error(err)
	}
	w.handle("/token", nil)
	if _, err := w.post(t, w.client(s), ""); err != nil {
		t.Errorf("the login is lost: %v", err)
	}
}

func TestAnAssertionThatCannotBeHadIsAnError(t *testing.T) {
	t.Parallel()
	broken := errors.New("the platform is silent")
	for _, grant := range []oauth.Grant{oauth.Workload, oauth.Enterprise} {
		w := newWorld(t)
		config := oauth.Config{Grant: grant, Issuer: w.URL, ClientID: "id", IDP: oauth.IDP{Issuer: w.URL, TokenEndpoint: w.URL + "/token"}}
		var refused *oauth.Refused
		if _, err := w.post(t, w.with(&store{}, config), ""); !errors.As(err, &refused) {
			t.Errorf("%s without an assertion: %v", grant, err)
		}
		config.Assertion = func(context.Context) (string, error) { return "", broken }
		if _, err := w.post(t, w.with(&store{}, config), ""); !errors.Is(err, broken) {
			t.Errorf("%s: %v", grant, err)
		}
		if len(w.forms()) > 0 {
			t.Errorf("%s: sent %v", grant, w.forms())
		}
		config.Assertion = func(context.Context) (string, error) { return "assertion", nil }
		s := &store{}
		if _, err := w.post(t, w.with(s, config), ""); err != nil {
			t.Fatal(err)
		}
		forms := w.forms()
		if last := forms[len(forms)-1]; last.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" || last.Get("resource") != w.URL+"/mcp" {
			t.Errorf("%s: %v", grant, last)
		}
		// A server that refuses its own new tokens gets no more of them, and no person is asked.
		w.mu.Lock()
		w.refuses = true
		w.mu.Unlock()
		config.Assertion = func(context.Context) (string, error) { return rand.Text(), nil }
		if _, err := w.post(t, w.with(s, config), ""); !errors.As(err, &refused) || !strings.Contains(err.Error(), "just now") {
			t.Errorf("%s: %v", grant, err)
		}
	}
}

func TestTheIdentityProviderThatRefusesIsNamed(t *testing.T) {
	t.Parallel()
	w, c := newWorld(t), newCompany(t)
	w.handle("/idp", func(rw http.ResponseWriter, _ *http.Request) {
		reply(rw, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
	})
	config := oauth.Config{
		Grant: oauth.Enterprise, Issuer: w.URL, ClientID: "id", IDP: oauth.IDP{Issuer: c.URL, TokenEndpoint: w.URL + "/idp"},
		Assertion: func(context.Context) (string, error) { return "ID-TOKEN", nil },
	}
	if _, err := w.post(t, w.with(&store{}, config), ""); err == nil || !strings.HasPrefix(err.Error()[strings.Index(err.Error(), "the identity"):], "the identity provider: the authorization server refused: invalid_grant") {
		t.Error(err)
	}
}

func TestTheStoreLearnsSecretsAndItsErrorsAreTold(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	w.auth = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}
	w.handle("/register", func(rw http.ResponseWriter, _ *http.Request) {
		reply(rw, http.StatusCreated, map[string]any{"client_id": "id", "client_secret": "of the client"})
	})
	if err := w.login(t, w.client(s)); err != nil {
		t.Fatal(err)
	}
	want := []string{"access-b", "refresh-b", "of the client"}
	if !slices.Equal(s.saved, want) {
		t.Errorf("saved: %v", s.saved)
	}
	if _, err := w.client(s).RequiredLogin(t.Context()); err != nil || !slices.Equal(s.learned, want) {
		t.Errorf("learned: %v, %v", s.learned, err)
	}
	broken := errors.New("the store is broken")
	expired := slices.Clone(s.data)
	for name, set := range map[string]func(*store){
		"lock": func(s *store) { s.lockErr = broken },
		"load": func(s *store) { s.loadErr = broken },
		"save": func(s *store) { s.saveErr = broken },
	} {
		for state, data := range map[string][]byte{"logged in": expired, "new": nil} {
			s := &store{data: data}
			set(s)
			w.drop()
			_, err := w.post(t, w.client(s), "")
			if !errors.Is(err, broken) {
				t.Errorf("%s, %s: %v", state, name, err)
			}
			if name == "load" {
				if _, err := w.client(s).RequiredLogin(t.Context()); !errors.Is(err, broken) {
					t.Errorf("%s: %v", state, err)
				}
				if _, err := w.client(s).AccessToken(t.Context()); !errors.Is(err, broken) {
					t.Errorf("%s: %v", state, err)
				}
			}
			if name != "load" {
				if err := w.client(s).Logout(t.Context()); !errors.Is(err, broken) {
					t.Errorf("%s, %s: %v", state, name, err)
				}
			}
			if !s.locked.TryLock() {
				t.Errorf("%s, %s: the store stays locked", state, name)
			}
		}
	}
	s.edit(t, w.URL, func(g map[string]any) { g["expires"], g["refresh_token"] = "2001-01-01T00:00:00Z", "used up" })
	s.saveErr = broken
	if _, err := w.client(s).AccessToken(t.Context()); !errors.Is(err, broken) {
		t.Errorf("a refresh token that is used up: %v", err)
	}
	s.saveErr = nil
	if err := w.client(s).Logout(t.Context()); err != nil || !s.locked.TryLock() {
		t.Errorf("after the logout, the store stays locked: %v", err)
	}
	if _, err := w.client(&store{data: []byte("{")}).RequiredLogin(t.Context()); err == nil || !strings.Contains(err.Error(), "stored logins cannot be read") {
		t.Error(err)
	}
}

func TestSecretReferencesAreResolvedEachTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.auth = map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}
	broken, version := errors.New("the vault is closed"), "1"
	var asked []string
	c := w.machine(&store{}, oauth.Config{ClientSecret: "vault:secret", Resolve: func(_ context.Context, text string) (string, error) {
		if version == "" {
			return "", broken
		}
		if text == "" {
			return "", nil
		}
		asked = append(asked, text)
		return "secret " + version, nil
	}})
	for _, version = range []string{"1", "2"} {
		w.drop()
		if _, err := w.post(t, c, ""); err != nil {
			t.Fatal(err)
		}
		forms := w.forms()
		if got := forms[len(forms)-1].Get("client_secret"); got != "secret "+version {
			t.Errorf("sent %q", got)
		}
	}
	for _, text := range asked {
		if text != "vault:secret" {
			t.Errorf("resolved %q", text)
		}
	}
	version = ""
	w.drop()
	if _, err := w.post(t, c, ""); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// proofs checks the DPoP proofs of requests (RFC 9449, 4.3).
type proofs struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (p *proofs) check(t *testing.T, r *http.Request, address, token, nonce string) (key string) {
	t.Helper()
	parsed, err := jwt.Parse(r.Header.Get("DPoP"), func(j *jwt.Token) (any, error) {
		k := j.Header["jwk"].(map[string]any)
		key = k["x"].(string) + "." + k["y"].(string)
		x, errX := base64.RawURLEncoding.DecodeString(k["x"].(string))
		y, errY := base64.RawURLEncoding.DecodeString(k["y"].(string))
		if k["kty"] != "EC" || k["crv"] != "P-256" || j.Header["typ"] != "dpop+jwt" {
			return nil, errors.New("another kind of key")
		}
		point, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append([]byte{4}, append(x, y...)...))
		return point, errors.Join(errX, errY, err)
	}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuedAt())
	if err != nil {
		t.Errorf("the proof: %v", err)
		return ""
	}
	claims := parsed.Claims.(jwt.MapClaims)
	p.mu.Lock()
	defer p.mu.Unlock()
	id := claims["jti"].(string)
	if p.seen[id] || claims["htm"] != r.Method || claims["htu"] != address || claims["iat"] == nil {
		t.Errorf("the proof for %s has %v", address, claims)
	}
	p.seen[id] = true
	if got, _ := claims["nonce"].(string); got != nonce {
		t.Errorf("the proof for %s has the nonce %q, want %q", address, got, nonce)
	}
	want, got := "", ""
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		want = base64.RawURLEncoding.EncodeToString(sum[:])
	}
	if got, _ = claims["ath"].(string); got != want {
		t.Errorf("the proof for %s is for another token: %q", address, got)
	}
	return key
}

func TestTokensAreBoundToAKeyWhereTheServerSupportsIt(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	w.auth = map[string]any{"dpop_signing_alg_values_supported": []string{"RS256", "ES256"}}
	p := &proofs{seen: map[string]bool{}}
	var bound []string
	nonce, asked := "", 0
	w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		key := p.check(t, r, w.URL+"/token", "", nonce)
		asked++
		if asked == 1 {
			nonce = "first"
			rw.Header().Set("DPoP-Nonce", nonce)
			reply(rw, http.StatusBadRequest, map[string]any{"error": "use_dpop_nonce"})
			return
		}
		bound = append(bound, key)
		reply(rw, http.StatusOK, map[string]any{"access_token": "token", "token_type": "dpop", "refresh_token": "refresh", "expires_in": 3600})
	})
	used := 0
	w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "DPoP token" {
			w.resource(rw, r)
			return
		}
		key := p.check(t, r, w.URL+"/mcp", "token", nonce)
		used++
		if used%2 == 1 {
			nonce += "+"
			rw.Header().Set("DPoP-Nonce", nonce)
			rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		if key != bound[len(bound)-1] {
			t.Error("the proof has another key than the token")
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = rw.Write(body)
	})
	c := w.client(s)
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if body, err := w.post(t, c, ""); err != nil || body != "body" {
			t.Fatalf("%q, %v", body, err)
		}
	}
	if used != 4 || asked != 2 {
		t.Errorf("%d requests with the token, %d for it", used, asked)
	}
	if len(s.saved) != 3 || !strings.Contains(s.saved[2], "PRIVATE KEY") {
		t.Errorf("%d secrets were saved", len(s.saved))
	}
	// A renewed token stays bound to the key, also in another process.
	s.edit(t, w.URL, func(g map[string]any) { g["expires"] = "2001-01-01T00:00:00Z" })
	nonce = ""
	if _, err := w.post(t, w.client(s), ""); err != nil {
		t.Fatal(err)
	}
	if len(bound) != 2 || bound[0] != bound[1] {
		t.Errorf("bound to %v", bound)
	}
	for _, key := range []string{"broken", rsaPEM(t)} {
		s.edit(t, w.URL, func(g map[string]any) { g["key"] = key })
		if _, err := w.post(t, w.client(s), ""); err == nil {
			t.Error("a request without a proof")
		}
		s.edit(t, w.URL, func(g map[string]any) { g["expires"] = "2001-01-01T00:00:00Z" })
		var needed *oauth.Needed
		if _, err := w.client(s).AccessToken(t.Context()); err == nil || errors.As(err, &needed) {
			t.Errorf("a renewal without a proof: %v", err)
		}
		s.edit(t, w.URL, func(g map[string]any) { delete(g, "expires") })
	}
}

func rsaPEM(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encodePEM(t, "PRIVATE KEY", der, err)
}

// A server that wants one nonce after the other is asked twice.
func TestNoncesEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.auth = map[string]any{"dpop_signing_alg_values_supported": []string{"ES256"}}
	asked := 0
	w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
		asked++
		rw.Header().Set("DPoP-Nonce", rand.Text())
		reply(rw, http.StatusBadRequest, map[string]any{"error": "use_dpop_nonce"})
	})
	c := w.machine(&store{}, oauth.Config{ClientSecret: "s"})
	if _, err := w.post(t, c, ""); err == nil || !strings.Contains(err.Error(), "use_dpop_nonce") || asked != 2 {
		t.Errorf("after %d requests: %v", asked, err)
	}
	w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.assertions[r.Header.Get("DPoP")] = true
		w.mu.Unlock()
		reply(rw, http.StatusOK, map[string]any{"access_token": "token", "token_type": "DPoP"})
	})
	used := 0
	w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			used++
			rw.Header().Set("DPoP-Nonce", rand.Text())
		}
		rw.Header().Set("WWW-Authenticate", `DPoP error="use_dpop_nonce", resource_metadata="`+w.URL+`/.well-known/oauth-protected-resource/mcp"`)
		rw.WriteHeader(http.StatusUnauthorized)
	})
	var refused *oauth.Refused
	if _, err := w.post(t, c, ""); !errors.As(err, &refused) || used != 2 {
		t.Errorf("after %d requests: %v", used, err)
	}
	// A nonce that comes with another refusal is for the next request.
	used = 0
	w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			used++
			rw.Header().Set("DPoP-Nonce", rand.Text())
			rw.WriteHeader(http.StatusBadRequest)
			return
		}
		rw.WriteHeader(http.StatusUnauthorized)
	})
	if _, err := w.post(t, c, ""); err == nil || err.Error() != "400 Bad Request" || used != 1 {
		t.Errorf("after %d requests: %v", used, err)
	}
}

func TestWhatCannotBeSentTwiceIsNot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client(&store{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/mcp", io.MultiReader(strings.NewReader("a stream")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Transport(nil).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || w.seen.Load() != 1 {
		t.Errorf("%d after %d requests", resp.StatusCode, w.seen.Load())
	}
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the body is gone")
	request, _ = http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/mcp", strings.NewReader("body"))
	request.GetBody = func() (io.ReadCloser, error) { return nil, broken }
	if _, err := c.Transport(nil).RoundTrip(request); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestAServerThatIsGoneIsAnErrorOfItsOwn(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	if err := w.login(t, w.client(s)); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the network is gone")
	base := roundTrip(func(*http.Request) (*http.Response, error) { return nil, broken })
	for _, s := range []*store{s, {}} {
		client := &http.Client{Transport: w.client(s).Transport(base)}
		if _, err := client.Get(w.URL + "/mcp"); !errors.Is(err, broken) {
			t.Error(err)
		}
	}
	// Between the request and its repetition.
	answers := 0
	base = func(r *http.Request) (*http.Response, error) {
		if answers++; answers > 1 {
			return nil, broken
		}
		return http.DefaultTransport.RoundTrip(r)
	}
	w.drop()
	if _, err := (&http.Client{Transport: w.client(s).Transport(base)}).Get(w.URL + "/mcp"); !errors.Is(err, broken) {
		t.Error(err)
	}
	// The token endpoint is gone.
	s.edit(t, w.URL, func(g map[string]any) {
		g["expires"], g["token_endpoint"] = "2001-01-01T00:00:00Z", "http://127.0.0.1:1/token"
	})
	var urlError *url.Error
	if _, err := w.client(s).AccessToken(t.Context()); !errors.As(err, &urlError) {
		t.Error(err)
	}
	s.edit(t, w.URL, func(g map[string]any) { g["token_endpoint"] = "http://login.example.com/token" })
	if _, err := w.client(s).AccessToken(t.Context()); err == nil || !strings.Contains(err.Error(), "is not HTTPS") {
		t.Error(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestATokenIsNotSentWithoutTLS(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	if err := w.login(t, w.client(s)); err != nil {
		t.Fatal(err)
	}
	config := oauth.Config{Resource: strings.Replace(w.URL, "http://", "https://", 1) + "/mcp"}
	for address, sent := range map[string]bool{config.Resource: true, w.URL + "/mcp": false, strings.ToUpper(config.Resource): true} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		base := roundTrip(func(r *http.Request) (*http.Response, error) {
			if got := r.Header.Get("Authorization") != ""; got != sent {
				t.Errorf("%s: %v", address, r.Header)
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
		resp, err := oauth.New(config, s, w.Client()).Transport(base).RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
}

func TestANewLoginIsForWhatTheServerWantsNow(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	w.wantScope = "read"
	c := w.client(s)
	if err := w.login(t, c); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	w.refuses = true
	w.mu.Unlock()
	w.handle("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		if len(w.forms()) > 1 { // with the renewed token
			w.mu.Lock()
			w.wantScope = "write"
			w.mu.Unlock()
		}
		w.resource(rw, r)
	})
	var needed *oauth.Needed
	if _, err := w.post(t, c, ""); !errors.As(err, &needed) || strings.Join(needed.Scopes, " ") != "read write" {
		t.Error(err)
	}
}

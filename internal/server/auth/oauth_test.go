package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
)

const resource = "https://tools.example.com/mcp"

// issuer is an authorization server as far as a resource sees it.
type issuer struct {
	*httptest.Server
	t       *testing.T
	fetches atomic.Int64
	claims  string // the issuer that the metadata name; empty is the right one

	mu   sync.Mutex
	keys map[string]crypto.Signer
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t, keys: map[string]crypto.Signer{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		name := i.claims
		if name == "" {
			name = i.URL
		}
		json.NewEncoder(w).Encode(map[string]string{"issuer": name, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		json.NewEncoder(w).Encode(map[string]any{"keys": i.jwks()})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i.keys["rsa"] = key
	return i
}

func b64(n []byte) string { return base64.RawURLEncoding.EncodeToString(n) }

func (i *issuer) jwks() []map[string]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	keys := []map[string]string{{"kty": "oct", "kid": "secret"}}
	for id, key := range i.keys {
		switch public := key.Public().(type) {
		case *rsa.PublicKey:
			keys = append(keys, map[string]string{"kty": "RSA", "kid": id, "n": b64(public.N.Bytes()), "e": b64(big.NewInt(int64(public.E)).Bytes())})
		case *ecdsa.PublicKey:
			point, err := public.Bytes()
			if err != nil {
				i.t.Error(err)
			}
			half := len(point) / 2
			keys = append(keys, map[string]string{"kty": "EC", "kid": id, "crv": public.Curve.Params().Name, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:])})
		case ed25519.PublicKey:
			keys = append(keys, map[string]string{"kty": "OKP", "kid": id, "crv": "Ed25519", "x": b64(public)})
		}
	}
	return keys
}

func (i *issuer) good() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": i.URL, "sub": "ada", "aud": []string{"other", resource}, "exp": time.Now().Add(time.Hour).Unix(),
		"scope": "tools:read tools:write", "groups": []string{"dev"},
	}
}

func (i *issuer) sign(method jwt.SigningMethod, kid string, key any, claims jwt.MapClaims, header ...string) string {
	i.t.Helper()
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = kid
	for at := 0; at+1 < len(header); at += 2 {
		token.Header[header[at]] = header[at+1]
	}
	signed, err := token.SignedString(key)
	if err != nil {
		i.t.Fatal(err)
	}
	return signed
}

func (i *issuer) verifier(change ...func(*auth.VerifierOptions)) *auth.Verifier {
	o := auth.VerifierOptions{Issuers: []string{i.URL}, Resource: resource}
	for _, f := range change {
		f(&o)
	}
	return auth.NewVerifier(o)
}

func TestATokenForThisServerNamesItsBearer(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, ed, _ := ed25519.GenerateKey(rand.Reader)
	i.keys["ec"], i.keys["ed"] = ec, ed
	host := strings.TrimPrefix(i.URL, "http://")
	want := toolroom.Identity{Subject: host + "#ada", Scopes: []string{"tools:read", "tools:write"}}
	v := i.verifier()
	for _, c := range []struct {
		kid    string
		method jwt.SigningMethod
	}{{"rsa", jwt.SigningMethodRS256}, {"rsa", jwt.SigningMethodPS384}, {"ec", jwt.SigningMethodES256}, {"ed", jwt.SigningMethodEdDSA}} {
		got, err := v.Verify(t.Context(), i.sign(c.method, c.kid, i.keys[c.kid], i.good(), "typ", "at+jwt"))
		if err != nil {
			t.Errorf("%s: %v", c.method.Alg(), err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.method.Alg(), diff)
		}
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	none := i.good()
	delete(none, "scope")
	got, err := v.Verify(t.Context(), i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], none))
	if err != nil || got.Scopes == nil || len(got.Scopes) != 0 {
		t.Errorf("a token without scopes is %+v, %v: it must be limited to none", got, err)
	}
	grouped := i.verifier(func(o *auth.VerifierOptions) { o.GroupsClaim = "groups" })
	if got, err := grouped.Verify(t.Context(), i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], i.good())); err != nil || !cmp.Equal(got.Groups, []string{"dev"}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestATokenIsBoundToTheToolSetThatItsClaimNames(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	bound := i.verifier(func(o *auth.VerifierOptions) { o.SetClaim = "tool_set" })
	for _, c := range []struct {
		name  string
		claim any // nil: none
		set   string
		fails bool
	}{
		{"a set", "notes", "notes", false},
		{"no claim", nil, "", false},
		{"an empty name", "", "", true},
		{"a list", []string{"notes"}, "", true},
	} {
		claims := i.good()
		if c.claim != nil {
			claims["tool_set"] = c.claim
		}
		token := i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], claims)
		got, err := bound.Verify(t.Context(), token)
		if (err != nil) != c.fails || got.Set != c.set {
			t.Errorf("%s: bound to %q, %v", c.name, got.Set, err)
		}
		if got, err := i.verifier().Verify(t.Context(), token); err != nil || got.Set != "" {
			t.Errorf("%s: where no claim is read it is bound to %q, %v", c.name, got.Set, err)
		}
	}
}

func TestATokenThatIsNotForThisServerOrNotSignedByItsIssuerIsRefused(t *testing.T) {
	t.Parallel()
	i, other := newIssuer(t), newIssuer(t)
	key := i.keys["rsa"].(*rsa.PrivateKey)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	asSecret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	with := func(name string, value any) jwt.MapClaims {
		claims := i.good()
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
		return claims
	}
	good := i.sign(jwt.SigningMethodRS256, "rsa", key, i.good())
	body := strings.Split(good, ".")
	forged, _ := json.Marshal(with("sub", "root"))
	for name, token := range map[string]string{
		"another audience":         i.sign(jwt.SigningMethodRS256, "rsa", key, with("aud", "https://other.example.com")),
		"no audience":              i.sign(jwt.SigningMethodRS256, "rsa", key, with("aud", nil)),
		"a longer audience":        i.sign(jwt.SigningMethodRS256, "rsa", key, with("aud", resource+"/x")),
		"expired":                  i.sign(jwt.SigningMethodRS256, "rsa", key, with("exp", time.Now().Add(-time.Hour).Unix())),
		"no end":                   i.sign(jwt.SigningMethodRS256, "rsa", key, with("exp", nil)),
		"not yet":                  i.sign(jwt.SigningMethodRS256, "rsa", key, with("nbf", time.Now().Add(time.Hour).Unix())),
		"nobody":                   i.sign(jwt.SigningMethodRS256, "rsa", key, with("sub", nil)),
		"an unknown issuer":        other.sign(jwt.SigningMethodRS256, "rsa", other.keys["rsa"], other.good()),
		"another one's key":        i.sign(jwt.SigningMethodRS256, "rsa", other.keys["rsa"], i.good()),
		"a key that is not there":  i.sign(jwt.SigningMethodRS256, "gone", key, i.good()),
		"no signature":             i.sign(jwt.SigningMethodNone, "rsa", jwt.UnsafeAllowNoneSignatureType, i.good()),
		"the public key as secret": i.sign(jwt.SigningMethodHS256, "rsa", asSecret, i.good()),
		"an ID token":              i.sign(jwt.SigningMethodRS256, "rsa", key, i.good(), "typ", "id+jwt"),
		"a changed body":           body[0] + "." + b64(forged) + "." + body[2],
		"no token":                 "a.b.c",
	} {
		t.Run(name, func(t *testing.T) {
			who, err := i.verifier().Verify(t.Context(), token)
			if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
				t.Errorf("got %+v, %v", who, err)
			}
		})
	}
}

func TestKeysThatChangeAreFoundAndStrangersCannotMakeUsAskAllTheTime(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	now := time.Now()
	v := i.verifier(func(o *auth.VerifierOptions) { o.Now = func() time.Time { return now } })
	old := i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], i.good())
	if _, err := v.Verify(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	i.keys["new"], _ = rsa.GenerateKey(rand.Reader, 2048)
	i.mu.Unlock()
	renewed := i.sign(jwt.SigningMethodRS256, "new", i.keys["new"], i.good())
	for range 20 {
		v.Verify(t.Context(), renewed)
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("an unknown key made us ask %d times at once", n)
	}
	now = now.Add(time.Minute)
	if _, err := v.Verify(t.Context(), renewed); err != nil {
		t.Errorf("the new key is not found: %v", err)
	}
	i.Close()
	now = now.Add(30 * time.Minute)
	if _, err := v.Verify(t.Context(), renewed); err != nil {
		t.Errorf("an issuer that is down makes good tokens bad: %v", err)
	}
}

func TestTheFirstTokenAfterALongPauseWaitsForTheKeys(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var later atomic.Int64
	v := i.verifier(func(o *auth.VerifierOptions) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	claims := i.good()
	claims["exp"] = time.Now().Add(100 * time.Hour).Unix()
	token := i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], claims)
	for range 2 {
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Fatalf("after %s: %v", time.Duration(later.Load()), err)
		}
		later.Store(int64(48 * time.Hour))
	}
}

func TestAnIssuerThatCannotBeTrustedOrReachedGivesNoKeys(t *testing.T) {
	t.Parallel()
	impostor := newIssuer(t)
	impostor.claims = "https://login.example.com"
	down := newIssuer(t)
	down.Close()
	for name, i := range map[string]*issuer{"it names another": impostor, "it is down": down} {
		_, err := i.verifier().Verify(t.Context(), i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], i.good()))
		if toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheChallengeSaysWhereTokensAreAndWhichScopesToAskFor(t *testing.T) {
	t.Parallel()
	v := auth.NewVerifier(auth.VerifierOptions{Issuers: []string{"https://login.example.com"}, Resource: resource, Scopes: []string{"mcp"}})
	const metadata = `resource_metadata="https://tools.example.com/.well-known/oauth-protected-resource/mcp"`
	if got := v.Challenge("", v.BaseScopes()); got != `Bearer `+metadata+`, scope="mcp"` {
		t.Errorf("got %s", got)
	}
	who := toolroom.Identity{Subject: "ada", Scopes: []string{"mcp", "read"}}
	missing := v.MissingScopes(who, "write")
	w := httptest.NewRecorder()
	v.Refuse(w, who, missing)
	if got := w.Header().Get("WWW-Authenticate"); w.Code != http.StatusForbidden || got != `Bearer error="insufficient_scope", `+metadata+`, scope="mcp read write"` {
		t.Errorf("got %d %s", w.Code, got)
	}
	if missing := v.MissingScopes(toolroom.Identity{Subject: "a token of ours"}, "write"); missing != nil {
		t.Errorf("who has no scopes lacks %v", missing)
	}
	w = httptest.NewRecorder()
	v.Metadata([]string{"write", "mcp"}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, v.MetadataPaths()[0], nil))
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"resource": resource, "authorization_servers": []any{"https://login.example.com"}, "scopes_supported": []any{"mcp", "write"},
		"bearer_methods_supported": []any{"header"}, "resource_name": "Toolroom",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestWhatATokenDemandsIsHonoured(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	v := i.verifier()
	sign := func(change func(jwt.MapClaims), header map[string]any) string {
		claims := i.good()
		change(claims)
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		token.Header["kid"] = "rsa"
		for name, value := range header {
			token.Header[name] = value
		}
		signed, err := token.SignedString(i.keys["rsa"])
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	same := func(jwt.MapClaims) {}
	for name, token := range map[string]string{
		"unknown critical header": sign(same, map[string]any{"crit": []string{"exp2"}, "exp2": 1}),
		"empty crit":              sign(same, map[string]any{"crit": []string{}}),
		"null crit":               sign(same, map[string]any{"crit": nil}),
		"b64":                     sign(same, map[string]any{"crit": []string{"b64"}, "b64": true}),
		"bound by DPoP":           sign(func(c jwt.MapClaims) { c["cnf"] = map[string]any{"jkt": "x"} }, nil),
		"bound by a certificate":  sign(func(c jwt.MapClaims) { c["cnf"] = map[string]any{"x5t#S256": "x"} }, nil),
		"bound, malformed":        sign(func(c jwt.MapClaims) { c["cnf"] = "x" }, nil),
	} {
		if _, err := v.Verify(t.Context(), token); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := v.Verify(t.Context(), sign(same, nil)); err != nil {
		t.Errorf("the control: %v", err)
	}
}

func TestAnExpiredTokenStaysSoWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var ahead time.Duration
	v := i.verifier(func(o *auth.VerifierOptions) { o.Now = func() time.Time { return time.Now().Add(ahead) } })
	token := i.sign(jwt.SigningMethodRS256, "rsa", i.keys["rsa"], i.good())
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	for _, ahead = range []time.Duration{2 * time.Hour, 0} {
		if _, err := v.Verify(t.Context(), token); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
			t.Errorf("%s ahead: %v", ahead, err)
		}
	}
}

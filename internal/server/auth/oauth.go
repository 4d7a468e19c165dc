package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/toolroom/toolroom"
)

// VerifierOptions configure a Verifier.
type VerifierOptions struct {
	// Issuers are the authorization servers whose tokens are accepted, spelled as
	// in their metadata.
	Issuers []string
	// Resource is the URL of this server, which must be the audience of tokens.
	Resource string
	// GroupsClaim is the name of the claim that lists a caller's groups. If empty,
	// no claim is read, because a caller that can set a claim could make itself an
	// operator.
	GroupsClaim string
	// SetClaim is the name of the claim that names the tool set to which a token is bound.
	// If empty, no token is.
	SetClaim string
	// Scopes are the scopes that every request needs.
	Scopes []string
	// Client fetches metadata and keys; nil means a client with a timeout of 10 s.
	Client *http.Client
	// Now returns the current time; nil means time.Now.
	Now func() time.Time
}

// Verifier verifies access tokens. Its methods are safe for concurrent use.
type Verifier struct {
	o      VerifierOptions
	keys   map[string]*keySet // by issuer
	parser *jwt.Parser
	// expired stores tokens that have been seen to be expired: they stay so if the clock
	// is set back.
	expired expiredTokens
}

// algorithms are the accepted signature algorithms. All are asymmetric, so that the
// key that checks a token cannot make one (RFC 8725 section 3.1).
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// leeway is the maximum difference between clocks.
const leeway = 30 * time.Second

// NewVerifier returns a Verifier. It fetches nothing before the first token.
func NewVerifier(o VerifierOptions) *Verifier {
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{o: o, keys: map[string]*keySet{}}
	for _, issuer := range o.Issuers {
		v.keys[issuer] = &keySet{issuer: issuer, client: o.Client, now: o.Now}
	}
	v.parser = jwt.NewParser(
		jwt.WithValidMethods(algorithms), jwt.WithExpirationRequired(), jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(o.Now), jwt.WithAudience(o.Resource),
	)
	return v
}

// IsJWT reports whether a bearer token has the form of a JWT. It does not verify
// the token.
func IsJWT(bearer string) bool { return strings.Count(bearer, ".") == 2 }

// Verify returns the identity of a token's bearer. The error has code unauthenticated
// if the token is invalid, and upstream_unavailable if the issuer's keys cannot be
// fetched.
func (v *Verifier) Verify(ctx context.Context, bearer string) (toolroom.Identity, error) {
	token, claims, err := v.parse(ctx, bearer)
	if err != nil {
		return toolroom.Identity{}, err
	}
	// An ID token identifies the user that logged in, but grants its bearer nothing.
	if typ, _ := token.Header["typ"].(string); typ != "" && !slices.Contains([]string{"jwt", "at+jwt", "application/at+jwt"}, strings.ToLower(typ)) {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token is a %s, not an access token", typ)
	}
	// A token that is bound to a key (RFC 7800) must not work without a proof of that key.
	if bound, ok := claims["cnf"]; ok && bound != nil {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token is bound to a key (cnf), and this server accepts only bearer tokens").
			WithHint("request a token without DPoP or a client certificate")
	}
	return v.identity(claims)
}

// UserInfo requests the claims of the person who has just logged in (OpenID Connect Core, 5.3).
type UserInfo func(context.Context) (map[string]any, error)

// VerifyLogin returns the person that an ID token identifies, which was requested with
// nonce by the client that [VerifierOptions.Resource] names (OpenID Connect Core, 3.1.3.7).
// If the token has no groups claim, it is read from userInfo, where many providers have it
// instead. A nil userInfo means that the provider has none.
func (v *Verifier) VerifyLogin(ctx context.Context, idToken, nonce string, userInfo UserInfo) (toolroom.Identity, error) {
	_, claims, err := v.parse(ctx, idToken)
	if err != nil {
		return toolroom.Identity{}, err
	}
	if got, _ := claims["nonce"].(string); got == "" || got != nonce {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the ID token is not that of this login (nonce)")
	}
	if party, ok := claims["azp"]; ok && party != v.o.Resource {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the ID token was issued to the client %v", party)
	}
	subject, _ := claims["sub"].(string)
	if subject == "" {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the ID token has no subject")
	}
	if name := v.o.GroupsClaim; name != "" && claims[name] == nil && userInfo != nil {
		more, err := userInfo(ctx)
		if err != nil {
			return toolroom.Identity{}, fmt.Errorf("read the claim %s: %w", name, err)
		}
		if more["sub"] != subject { // OpenID Connect Core, 5.3.2
			return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the provider's user info is about another person than its ID token")
		}
		claims[name] = more[name]
	}
	return v.identity(claims)
}

// parse verifies signature, issuer, audience and times.
func (v *Verifier) parse(ctx context.Context, bearer string) (*jwt.Token, jwt.MapClaims, error) {
	if v.expired.has(bearer) {
		return nil, nil, toolroom.Errorf(toolroom.CodeUnauthenticated, "invalid token: %w", jwt.ErrTokenExpired)
	}
	claims := jwt.MapClaims{}
	token, err := v.parser.ParseWithClaims(bearer, claims, func(t *jwt.Token) (any, error) {
		issuer, err := t.Claims.GetIssuer()
		if err != nil {
			return nil, err
		}
		keys, ok := v.keys[issuer]
		if !ok {
			return nil, errors.New("its issuer is not configured")
		}
		kid, _ := t.Header["kid"].(string)
		return keys.key(ctx, kid, t.Method.Alg())
	})
	if err != nil {
		if errors.Is(err, jwt.ErrTokenExpired) {
			v.expired.add(bearer, v.o.Now())
		}
		if known, ok := errors.AsType[*toolroom.Error](err); ok {
			return nil, nil, known
		}
		return nil, nil, toolroom.Errorf(toolroom.CodeUnauthenticated, "invalid token: %w", err)
	}
	// No extension is understood here, so every critical one is unknown (RFC 7515, 4.1.11).
	if _, critical := token.Header["crit"]; critical {
		return nil, nil, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token has a critical header (crit), and none is supported")
	}
	return token, claims, nil
}

func (v *Verifier) identity(claims jwt.MapClaims) (toolroom.Identity, error) {
	subject, _ := claims["sub"].(string)
	if subject == "" {
		// The client acts for itself (RFC 9068 section 2.2).
		subject, _ = claims["client_id"].(string)
	}
	issuer, _ := claims["iss"].(string)
	u, err := url.Parse(issuer)
	if subject == "" || err != nil {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token has no subject")
	}
	// The same subject of another issuer, or in a token of ours, is another caller.
	who := toolroom.Identity{Subject: u.Host + u.EscapedPath() + "#" + subject, Scopes: []string{}}
	switch scope := firstOf(claims["scope"], claims["scp"]).(type) {
	case string:
		who.Scopes = append(who.Scopes, strings.Fields(scope)...)
	case []any:
		who.Scopes = append(who.Scopes, texts(scope)...)
	}
	if v.o.GroupsClaim != "" {
		switch groups := claims[v.o.GroupsClaim].(type) {
		case string: // some providers send a single group like this
			who.Groups = []string{groups}
		case []any:
			who.Groups = texts(groups)
		}
	}
	if set, ok := claims[v.o.SetClaim]; ok && v.o.SetClaim != "" {
		if who.Set, _ = set.(string); who.Set == "" {
			return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token's claim %s does not name a tool set", v.o.SetClaim)
		}
	}
	return who, nil
}

func firstOf(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

func texts(list []any) []string {
	var out []string
	for _, v := range list {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// expiredTokens stores expired tokens, by their hashes. The zero value is empty. Only the
// signatures of the configured issuers add to it. Its methods are safe for concurrent use.
type expiredTokens struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]time.Time // when it was last seen to be expired
}

// maxExpired limits the stored tokens, and keepExpired the time for which one is stored.
const (
	maxExpired  = 10_000
	keepExpired = 24 * time.Hour
)

func (e *expiredTokens) has(token string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.seen[sha256.Sum256([]byte(token))]
	return ok
}

// add stores a token. If the store is full, it drops old tokens, or any one if none is old.
func (e *expiredTokens) add(token string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = map[[sha256.Size]byte]time.Time{}
	}
	if len(e.seen) >= maxExpired {
		for sum, at := range e.seen {
			if now.Sub(at).Abs() > keepExpired {
				delete(e.seen, sum)
			}
		}
	}
	for sum := range e.seen {
		if len(e.seen) < maxExpired {
			break
		}
		delete(e.seen, sum)
	}
	e.seen[sha256.Sum256([]byte(token))] = now
}

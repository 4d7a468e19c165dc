// Package oauth makes the server an OAuth 2.0 protected resource: it verifies
// access tokens of configured authorization servers (RFC 9068), for this server
// and nobody else's, and says where tokens are to be had (RFC 9728). Make a
// [Verifier] with New.
package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/toolroom/toolroom"
)

// Options configure a Verifier.
type Options struct {
	// Issuers are the authorization servers whose tokens are good, as their
	// metadata names them.
	Issuers []string
	// Resource is the URL of this server that tokens must be for.
	Resource string
	// GroupsClaim names the claim that lists a caller's groups; empty reads none:
	// whoever can set a claim could make themselves an operator.
	GroupsClaim string
	// Scopes are those that every request needs.
	Scopes []string
	// Client fetches metadata and keys; nil is one with a timeout of 10 s.
	Client *http.Client
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Verifier tells whose an access token is. Its methods are safe for concurrent
// use.
type Verifier struct {
	o      Options
	keys   map[string]*keySet // by issuer
	parser *jwt.Parser
}

// algorithms are the signatures that are accepted: asymmetric ones, so that who
// can check a token cannot make one (RFC 8725 section 3.1).
var algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// leeway is how far clocks may be apart.
const leeway = 30 * time.Second

// New makes a verifier. Nothing is fetched before the first token comes.
func New(o Options) *Verifier {
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

// Understands reports whether a bearer token has the form of those verified
// here. Whether it is good is for Verify to say.
func Understands(bearer string) bool { return strings.Count(bearer, ".") == 2 }

// Verify tells who the bearer of a token is. The error has code unauthenticated
// for a token that is not good, and upstream_unavailable when the issuer's keys
// cannot be had.
func (v *Verifier) Verify(ctx context.Context, bearer string) (toolroom.Identity, error) {
	claims := jwt.MapClaims{}
	token, err := v.parser.ParseWithClaims(bearer, claims, func(t *jwt.Token) (any, error) {
		issuer, err := t.Claims.GetIssuer()
		if err != nil {
			return nil, err
		}
		keys, ok := v.keys[issuer]
		if !ok {
			return nil, errors.New("its issuer is not one of those configured")
		}
		kid, _ := t.Header["kid"].(string)
		return keys.key(ctx, kid, t.Method.Alg())
	})
	if err != nil {
		var known *toolroom.Error
		if errors.As(err, &known) {
			return toolroom.Identity{}, known
		}
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token is not good here: %w", err)
	}
	// An ID token says who logged in, not what its bearer may do.
	if typ, _ := token.Header["typ"].(string); typ != "" && !slices.Contains([]string{"jwt", "at+jwt", "application/at+jwt"}, strings.ToLower(typ)) {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token is a %s, not an access token", typ)
	}
	return v.identity(claims)
}

func (v *Verifier) identity(claims jwt.MapClaims) (toolroom.Identity, error) {
	subject, _ := claims["sub"].(string)
	if subject == "" {
		// A client that acts for itself (RFC 9068 section 2.2).
		subject, _ = claims["client_id"].(string)
	}
	issuer, _ := claims["iss"].(string)
	u, err := url.Parse(issuer)
	if subject == "" || err != nil {
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token names nobody")
	}
	// The same name at another issuer, or in a token of ours, is somebody else.
	who := toolroom.Identity{Subject: u.Host + u.EscapedPath() + "#" + subject, Scopes: []string{}}
	switch scope := firstOf(claims["scope"], claims["scp"]).(type) {
	case string:
		who.Scopes = append(who.Scopes, strings.Fields(scope)...)
	case []any:
		who.Scopes = append(who.Scopes, texts(scope)...)
	}
	if v.o.GroupsClaim != "" {
		groups, _ := claims[v.o.GroupsClaim].([]any)
		who.Groups = texts(groups)
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

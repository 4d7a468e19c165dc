// Package auth stands in front of every HTTP surface: it finds out who calls,
// keeps web pages of other origins out, and bounds what one request may cost.
// [Middleware] comes first; [Server] has the limits of connections.
package auth

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Required says who must bring a token.
type Required string

// The rules of who must bring a token. A token that is not good is refused
// under each of them.
const (
	// Auto, the default, takes a request from this machine for the local
	// operator and asks everybody else for a token.
	Auto Required = "auto"
	// Always asks everybody.
	Always Required = "always"
	// Never takes everybody for the local operator: for a network where only
	// the operator is.
	Never Required = "never"
)

// DefaultMaxBody bounds a request body, in bytes, where Options do not.
const DefaultMaxBody = 64 << 20

// Options configure the middleware.
type Options struct {
	// Verify tells whose token this is; an error with code unauthenticated says
	// that it is nobody's. Without Verify no token is good.
	Verify   func(ctx context.Context, bearer string) (toolroom.Identity, error)
	Required Required
	// Origins are the web origins, such as https://app.example.com, whose pages
	// may call besides the server's own.
	Origins []string
	// Challenge makes the header WWW-Authenticate for a client without a good
	// token; problem is invalid_token, or empty when no token came. Nil is a
	// challenge that names the realm alone.
	Challenge func(problem string) string
	// Realm is named in challenges; empty is toolroom.
	Realm string
	// Listen is the address that the server listens on. When that is a loopback
	// address, the Host of each request must name this machine.
	Listen string
	// Open are the exact paths that need no token, such as those of probes.
	Open []string
	// MaxBody is the largest request body in bytes; zero is DefaultMaxBody.
	MaxBody int64
	Log     *slog.Logger
}

// Middleware wraps a handler with everything in this package. From the
// outermost: request id, recovery from panics, Host and Origin, limits of
// the body, identity.
func Middleware(o Options) func(http.Handler) http.Handler {
	if o.Required == "" {
		o.Required = Auto
	}
	if o.Realm == "" {
		o.Realm = "toolroom"
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return func(next http.Handler) http.Handler {
		next = o.identify(next)
		next = o.limitBody(next)
		next = o.checkOrigin(next)
		return o.guard(next)
	}
}

type identityKey struct{}

// Identity is who makes the request with this context. Outside of a request
// that passed the middleware it is the local operator.
func Identity(ctx context.Context) toolroom.Identity {
	who, _ := ctx.Value(identityKey{}).(toolroom.Identity)
	return who
}

// Operators is the group whose members see and do what the local operator does.
const Operators = "operators"

// IsOperator reports whether who may see what belongs to others.
func IsOperator(who toolroom.Identity) bool {
	return IsLocal(who) || slices.Contains(who.Groups, Operators)
}

// IsLocal reports whether who is the local operator.
func IsLocal(who toolroom.Identity) bool { return who.Key() == toolroom.Identity{}.Key() }

func (o *Options) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := o.caller(r)
		if toolroom.CodeOf(err) == toolroom.CodeUnauthenticated {
			w.Header().Set("WWW-Authenticate", o.challenge(r))
			hint := "make a token (toolroom token create NAME) and send it as: Authorization: Bearer TOKEN"
			if o.Challenge != nil {
				hint = "get a token where the header WWW-Authenticate says, or " + hint
			}
			err = toolroom.AsError(err).WithHint("%s", hint)
		}
		if err != nil {
			problem.Write(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), identityKey{}, who)))
	})
}

func (o *Options) caller(r *http.Request) (toolroom.Identity, error) {
	who, err := o.authenticate(r)
	if err != nil {
		return who, err
	}
	// What a caller says it acts as only ever narrows what it may do, and never
	// replaces what its token says.
	narrow := func(field *string, header string) {
		if *field == "" {
			*field = r.Header.Get(header)
		}
	}
	narrow(&who.Agent, "Toolroom-Agent")
	narrow(&who.Provider, "Toolroom-Provider")
	narrow(&who.Skill, "Toolroom-Skill")
	return who, nil
}

func (o *Options) authenticate(r *http.Request) (toolroom.Identity, error) {
	operator := toolroom.Identity{}
	switch {
	case slices.Contains(o.Open, r.URL.Path):
		return operator, nil
	case r.Header.Get("Authorization") != "":
		return o.verify(r)
	case o.Required == Never, o.Required == Auto && isLocal(r):
		return operator, nil
	default:
		return operator, unauthenticated("this server asks for a token")
	}
}

func (o *Options) verify(r *http.Request) (toolroom.Identity, error) {
	bearer, ok := bearerOf(r)
	if !ok {
		return toolroom.Identity{}, unauthenticated("the header Authorization is not of the form: Bearer TOKEN")
	}
	if o.Verify == nil {
		return toolroom.Identity{}, unauthenticated("this server knows no tokens")
	}
	who, err := o.Verify(r.Context(), bearer)
	if err == nil && who.Subject == "" {
		// The zero identity is the local operator, whom no token stands for.
		err = unauthenticated("the token names nobody")
	}
	return who, err
}

func bearerOf(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && len(r.Header.Values("Authorization")) == 1
}

func unauthenticated(reason string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeUnauthenticated, "%s", reason)
}

// challenge names an error only when a token came, as RFC 6750 section 3.1
// asks.
func (o *Options) challenge(r *http.Request) string {
	if o.Challenge != nil {
		problem := ""
		if r.Header.Get("Authorization") != "" {
			problem = "invalid_token"
		}
		return o.Challenge(problem)
	}
	challenge := `Bearer realm="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(o.Realm) + `"`
	if r.Header.Get("Authorization") != "" {
		challenge += `, error="invalid_token", error_description="the token is not good here"`
	}
	return challenge
}

// isLocal reports whether a request was made on this machine and has not been
// handed on by a proxy.
func isLocal(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

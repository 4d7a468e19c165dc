// Package auth protects every HTTP surface: it identifies the caller, refuses web
// pages of other origins, and limits the cost of a request. Start at [Middleware];
// [Server] sets the limits of connections.
//
// A [Login] signs people in to the page from another machine: with a token, or through an
// OpenID Connect provider. A sealed cookie then identifies the person.
//
// A [Verifier] makes the server an OAuth 2.0 protected resource: it verifies access tokens
// that configured authorization servers issued for this server alone (RFC 9068), and
// serves the metadata that clients need to get one (RFC 9728).
package auth

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Required selects the callers that must send a token.
type Required string

// The values of Required. An invalid token is refused under each of them.
const (
	// Auto, the default, treats a request of the server's own user and of root, from the
	// host machine, as the local operator's and requires a token of all other callers.
	Auto Required = "auto"
	// Always requires a token of every caller.
	Always Required = "always"
	// Never treats every caller as the local operator. It is for a network that
	// only the operator uses.
	Never Required = "never"
)

// DefaultMaxBody is the default maximum size of a request body, in bytes.
const DefaultMaxBody = 64 << 20

// Options configure the middleware.
type Options struct {
	// Verify returns the identity of a token's bearer. It returns an error with code
	// unauthenticated if the token is invalid. If Verify is nil, no token is valid.
	Verify   func(ctx context.Context, bearer string) (toolroom.Identity, error)
	Required Required
	// Origins are the web origins, such as https://app.example.com, whose pages
	// may call, in addition to the server's own.
	Origins []string
	// Challenge returns the header WWW-Authenticate for a client without a valid
	// token. problem is invalid_token, or empty if the client sent no token. If
	// nil, the challenge names the realm alone.
	Challenge func(problem string) string
	// Realm is the realm in challenges; empty means toolroom.
	Realm string
	// Listen is the address on which the server listens, and URL the one at which
	// clients reach it. Hosts are further names of the server. A request without a
	// token is the operator's only if its Host is one of these or names this
	// machine.
	Listen, URL string
	Hosts       []string
	// Open are the exact paths that need no token, such as those of probes.
	Open []string
	// Decisions are path prefixes. Below them, a request that changes something
	// decides on behalf of a person. From a browser it needs a token of Page.
	Decisions []string
	Page      PageKey
	// Privileged are path prefixes. Below them, a request that changes something can start
	// programs or give access to others. It needs a token if the system does not tell which
	// user of this machine sends it.
	Privileged []string
	// Session returns the person that a browser's cookie identifies. SignIn serves the login
	// form, in place of an error for the page at /. Both may be nil.
	Session func(*http.Request) (toolroom.Identity, bool)
	SignIn  http.HandlerFunc
	// Links are paths besides / to which pages of other origins may link, because a login
	// returns to them.
	Links []string
	// MaxBody is the maximum size of a request body in bytes; zero means DefaultMaxBody.
	MaxBody int64
	// MaxPerCaller limits the requests and streams of one caller that are served at once;
	// zero means DefaultMaxPerCaller.
	MaxPerCaller int
	Log          *slog.Logger
}

// Middleware returns middleware with all checks of this package. From the outermost:
// request id, recovery from panics, Origin, limits of the body, identity (which
// includes Host).
func Middleware(o Options) func(http.Handler) http.Handler {
	o.setDefaults()
	return func(next http.Handler) http.Handler {
		next = o.identify(next)
		next = o.limitBody(next)
		next = o.checkOrigin(next)
		return o.recoverPanics(next)
	}
}

// setDefaults sets the defaults.
func (o *Options) setDefaults() {
	o.Required = cmp.Or(o.Required, Auto)
	o.Realm = cmp.Or(o.Realm, "toolroom")
	o.MaxBody = cmp.Or(o.MaxBody, DefaultMaxBody)
	o.MaxPerCaller = cmp.Or(o.MaxPerCaller, DefaultMaxPerCaller)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}

// Identity returns the caller of the request with this context. Without the
// middleware it is the local operator.
func Identity(ctx context.Context) toolroom.Identity { return requestOf(ctx).who }

// WithIdentity returns a context whose request is that of who.
func WithIdentity(ctx context.Context, who toolroom.Identity) context.Context {
	return context.WithValue(ctx, requestKey{}, request{id: RequestID(ctx), who: who})
}

// WhileValid returns a context that ends with ctx, or once the request's token is no longer
// valid or stands for somebody else, which is looked at in intervals: a long response must not
// outlive it. If the token cannot be verified now, it counts as valid.
func WhileValid(ctx context.Context, every time.Duration) (context.Context, context.CancelFunc) {
	valid := requestOf(ctx).valid
	ctx, cancel := context.WithCancel(ctx)
	if valid == nil {
		return ctx, cancel
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if !valid() {
				cancel()
			}
		}
	})
	return ctx, func() { cancel(); watch.Wait() }
}

// Anyone is the subject of requests to [Options.Open] paths, whose callers are not identified.
const Anyone = "anyone"

// Operators is the group whose members have the rights of the local operator.
const Operators = "operators"

// IsOperator reports whether who is an operator, who may see the data of other callers. A
// caller that is bound to a tool set or an environment is never an operator.
func IsOperator(who toolroom.Identity) bool {
	return !Bound(who) && (IsLocal(who) || slices.Contains(who.Groups, Operators))
}

// Bound reports whether a caller is bound to a tool set or an environment.
func Bound(who toolroom.Identity) bool { return who.Set != "" || who.Environment != "" }

// IsLocal reports whether who is the local operator.
func IsLocal(who toolroom.Identity) bool { return who.Key() == toolroom.Identity{}.Key() }

func (o *Options) identify(next http.Handler) http.Handler {
	shares := &callerLimit{limit: o.MaxPerCaller, open: map[string]int{}}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, session, err := o.caller(r)
		if toolroom.CodeOf(err) == toolroom.CodeUnauthenticated && o.SignIn != nil && asksForPage(r) {
			o.SignIn(w, r)
			return
		}
		if toolroom.CodeOf(err) == toolroom.CodeUnauthenticated {
			w.Header().Set("WWW-Authenticate", o.challenge(r))
			hint := "create a token (toolroom token create NAME) and send it as: Authorization: Bearer TOKEN"
			if o.Challenge != nil {
				hint = "get a token from the server named in the header WWW-Authenticate, or " + hint
			}
			err = toolroom.AsError(err).WithHint("%s", hint)
		}
		if err == nil {
			err = o.checkDecision(r, session)
		}
		if err != nil {
			problem.Write(w, err)
			return
		}
		key := callerKey(who)
		if slices.Contains(o.Open, r.URL.Path) {
			key = addressKey(r, r.URL.Path)
		}
		leave, ok := shares.enter(key)
		if !ok {
			shares.refuse(w)
			return
		}
		defer leave()
		known := request{requestOf(r.Context()).id, who, func() bool {
			now, _, err := o.caller(r)
			return toolroom.CodeOf(err) != toolroom.CodeUnauthenticated && (err != nil || reflect.DeepEqual(now, who))
		}}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, known)))
	})
}

// caller returns the caller of a request, and whether a cookie identified it.
func (o *Options) caller(r *http.Request) (who toolroom.Identity, session bool, err error) {
	if o.Session != nil && r.Header.Get("Authorization") == "" && !slices.Contains(o.Open, r.URL.Path) {
		who, session = o.Session(r)
	}
	if !session {
		if who, err = o.authenticate(r); err != nil {
			return who, false, err
		}
	}
	// These headers can only narrow the caller's rights, and never replace what its
	// token says.
	narrow := func(field *string, header string) {
		if *field != "" {
			return
		}
		if *field = r.Header.Get(header); len(*field) > maxName {
			err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the header %s has %d bytes, the limit is %d", header, len(*field), maxName).WithHint("use a shorter name")
		}
	}
	narrow(&who.Agent, "Toolroom-Agent")
	narrow(&who.Provider, "Toolroom-Provider")
	narrow(&who.Skill, "Toolroom-Skill")
	return who, session, err
}

// maxName limits what a header names, in bytes, because every receipt of the caller repeats it.
const maxName = 1024

// asksForPage reports whether a browser requests a page that a person may sign in to. It does
// not use the Sec-Fetch headers, because browsers do not send them over plain HTTP.
func asksForPage(r *http.Request) bool {
	return (r.URL.Path == "/" || r.URL.Path == "/docs") && r.Method == http.MethodGet && r.Header.Get("Authorization") == "" &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (o *Options) authenticate(r *http.Request) (toolroom.Identity, error) {
	operator := toolroom.Identity{}
	switch {
	case slices.Contains(o.Open, r.URL.Path):
		return toolroom.Identity{Subject: Anyone}, nil
	case r.Header.Get("Authorization") != "":
		return o.verify(r)
	case o.Required == Never:
		return operator, o.checkHost(r)
	case o.Required == Auto:
		return operator, o.checkLocalOperator(r)
	default:
		return operator, unauthenticated("this server requires a token")
	}
}

func (o *Options) verify(r *http.Request) (toolroom.Identity, error) {
	bearer, ok := bearerOf(r)
	if !ok {
		return toolroom.Identity{}, unauthenticated("the header Authorization does not have the form: Bearer TOKEN")
	}
	if o.Verify == nil {
		return toolroom.Identity{}, unauthenticated("this server accepts no tokens")
	}
	who, err := o.Verify(r.Context(), bearer)
	if err == nil && who.Subject == "" {
		// The zero identity is the local operator, which no token may represent.
		err = unauthenticated("the token has no subject")
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

// challenge returns the header WWW-Authenticate. It names an error only if the client
// sent a token, as RFC 6750 section 3.1 requires.
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
		challenge += `, error="invalid_token", error_description="the token is not valid for this server"`
	}
	return challenge
}

// isLocal reports whether a request comes from this machine and not through a proxy.
func isLocal(r *http.Request) bool {
	for name := range r.Header {
		if name == "Forwarded" || name == "Via" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return false
		}
	}
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && from.Addr().Unmap().IsLoopback()
}

// EnvironmentHeader is the header in which a client chooses the environment whose released
// versions serve its calls.
const EnvironmentHeader = "Toolroom-Environment"

type environmentKey struct{}

// WithEnvironment returns a context of a request in an environment.
func WithEnvironment(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, environmentKey{}, name)
}

// Environment returns the environment of a request; empty means that it names none.
func Environment(ctx context.Context) string {
	name, _ := ctx.Value(environmentKey{}).(string)
	return name
}

package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/oauth"
)

// loginCheck limits the time for looking up a login in the store.
const loginCheck = 5 * time.Second

// park stops a link whose server requires a login and returns the error of all
// calls until there is one. It returns nil for any other failure. The caller holds
// the lock.
func (l *link) park(err error) error {
	var needed *oauth.Needed
	if !errors.As(err, &needed) {
		return nil
	}
	l.state = waiting
	e := l.loginError(needed)
	l.reason = needed.Error() + "; " + cmp.Or(e.CLIHint, e.Hint)
	l.failure = e
	return e
}

// rest returns a link that still needs a login to its stopped state.
func (l *link) rest(reason string, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = failure
	if l.state == connecting {
		l.state, l.reason = waiting, reason
	}
}

// authorised reports whether a login has been made since the link was stopped. It
// asks the store, not the server.
func (l *link) authorised() bool {
	ctx, cancel := context.WithTimeout(l.life, loginCheck)
	defer cancel()
	needed, err := l.auth.Waiting(ctx)
	return err == nil && needed == nil
}

// unauthorised handles a request that needs a login and returns its error. If the
// request needs a login with more scopes, other calls keep the connection.
func (l *link) unauthorised(up *upstream, needed *oauth.Needed) error {
	if !needed.StepUp {
		l.lose(up, needed.Error())
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == idle {
			return l.park(needed)
		}
	}
	return l.loginError(needed)
}

func (l *link) loginError(needed *oauth.Needed) *toolroom.Error {
	namespace := l.s.o.Namespace
	e := toolroom.Errorf(toolroom.CodeUnauthenticated, "the MCP server %s needs a login: %w", namespace, needed)
	e.Effects = toolroom.EffectsNone
	e.Details = map[string]any{"state": string(waiting)}
	if len(needed.Scopes) > 0 {
		e.Details["scopes"] = needed.Scopes
	}
	return e.WithHint("a person logs in with: toolroom sources login %s%s", namespace, l.as())
}

// as returns the flag with which a person logs in for the identity of a link.
func (l *link) as() string {
	switch who, err := identity.Parse(l.who); {
	case err != nil || l.who == "" || l.who == (toolroom.Identity{}).Key():
		return ""
	case l.who == who.Key():
		return " --as " + l.who
	default:
		text, err := json.Marshal(who)
		if err != nil {
			return "" // impossible: it holds only strings
		}
		return " --as '" + strings.ReplaceAll(string(text), "'", `'\''`) + "'"
	}
}

// Login lets a person log in to the server for an identity. The authorisation
// server sends the browser back to redirect; visit shows the login address and
// returns the address with which the browser came back.
func (s *Source) Login(ctx context.Context, who toolroom.Identity, redirect string, visit oauth.Visit) error {
	l := s.link(s.ownerOf(who))
	if l.auth == nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s does not use a login: it is a program on this machine, or its config sets the Authorization header", s.o.Namespace)
	}
	return l.auth.Login(ctx, redirect, visit)
}

// ownerOf returns the owner name of the identity whose connection a caller uses. A login
// serves only callers that are narrowed alike: what a token may not do, the login of a wider
// one must not do for it, and nobody else may log a wider one in.
func (s *Source) ownerOf(who toolroom.Identity) string {
	if s.o.Shared || s.o.Auth == nil {
		return ""
	}
	return identity.Owner(who)
}

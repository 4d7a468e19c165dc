package mcpsource

import (
	"context"
	"errors"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
)

// loginCheck is how long looking for a login in the store may take.
const loginCheck = 5 * time.Second

// park puts a link to rest whose server wants a login, and gives the error that
// calls get until there is one. It gives nil for any other failure. The caller
// holds the lock.
func (l *link) park(err error) error {
	var needed *oauth.Needed
	if !errors.As(err, &needed) {
		return nil
	}
	l.state = waiting
	e := l.loginError(needed)
	l.reason = needed.Error() + "; " + e.Hint
	l.failure = e
	return e
}

// rest puts a link back that still waits for a login.
func (l *link) rest(reason string, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = failure
	if l.state == connecting {
		l.state, l.reason = waiting, reason
	}
}

// authorised reports whether a login has been made since the link was put to
// rest. It asks the store, not the server.
func (l *link) authorised() bool {
	ctx, cancel := context.WithTimeout(l.life, loginCheck)
	defer cancel()
	needed, err := l.auth.Waiting(ctx)
	return err == nil && needed == nil
}

// unauthorised is what follows from a request that needs a login. One that
// needs a login which goes further leaves the connection to the other calls.
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
	e := toolroom.Errorf(toolroom.CodeUnauthenticated, "the MCP server %s waits for authorisation, %w", namespace, needed)
	e.Details = map[string]any{"effects": toolroom.EffectsNone, "state": string(waiting)}
	if len(needed.Scopes) > 0 {
		e.Details["scopes"] = needed.Scopes
	}
	if l.who != "" && l.who != toolroom.Identity.Key(toolroom.Identity{}) {
		return e.WithHint("log in: toolroom sources login %s --as %s", namespace, l.who)
	}
	return e.WithHint("log in: toolroom sources login %s", namespace)
}

// Login lets a person log in to the server for an identity. Redirect is where
// the browser comes back to; visit shows the address and gives the one that the
// browser came back with.
func (s *Source) Login(ctx context.Context, who toolroom.Identity, redirect string, visit oauth.Visit) error {
	l := s.link(s.ownerOf(who))
	if l.auth == nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s takes no login: it is a program on this machine, or its config sets the header Authorization", s.o.Namespace)
	}
	return l.auth.Login(ctx, redirect, visit)
}

// ownerOf is whose connection a caller uses.
func (s *Source) ownerOf(who toolroom.Identity) string {
	if s.o.Shared || s.o.Auth == nil {
		return ""
	}
	return who.Key()
}

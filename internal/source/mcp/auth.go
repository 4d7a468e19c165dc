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

// loginCheckTimeout limits the time for looking up a login in the store.
const loginCheckTimeout = 5 * time.Second

// stopForLogin stops a link whose server requires a login, and returns the error of all calls
// until somebody has logged in. It returns nil and does nothing for any other error. The caller
// holds the lock.
func (l *link) stopForLogin(err error) error {
	var needed *oauth.Needed
	if !errors.As(err, &needed) {
		return nil
	}
	l.state = needsLogin
	e := l.loginError(needed)
	l.reason = needed.Error() + "; " + cmp.Or(e.CLIHint, e.Hint)
	l.failure = e
	return e
}

// stayStopped puts a link that still needs a login back into its stopped state.
func (l *link) stayStopped(reason string, failure error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = failure
	if l.state == connecting {
		l.state, l.reason = needsLogin, reason
	}
}

// hasLogin reports whether a login has been made since the link was stopped. It
// asks the store, not the server.
func (l *link) hasLogin() bool {
	ctx, cancel := context.WithTimeout(l.ctx, loginCheckTimeout)
	defer cancel()
	needed, err := l.auth.RequiredLogin(ctx)
	return err == nil && needed == nil
}

// handleNeedsLogin handles a request that needs a login, and returns its error. It drops the
// connection unless only this request needs a login, with more scopes.
func (l *link) handleNeedsLogin(up *upstream, needed *oauth.Needed) error {
	if !needed.StepUp {
		l.drop(up, needed.Error())
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == idle {
			return l.stopForLogin(needed)
		}
	}
	return l.loginError(needed)
}

func (l *link) loginError(needed *oauth.Needed) *toolroom.Error {
	namespace := l.s.o.Namespace
	e := toolroom.Errorf(toolroom.CodeUnauthenticated, "the MCP server %s %w", namespace, needed)
	e.Effects = toolroom.EffectsNone
	e.Details = map[string]any{"state": string(needsLogin)}
	if len(needed.Scopes) > 0 {
		e.Details["scopes"] = needed.Scopes
	}
	return e.WithHint("a person logs in with: toolroom sources login %s%s", namespace, l.loginFlag())
}

// loginFlag returns the command-line flag for a login as the identity of a link.
func (l *link) loginFlag() string {
	switch who, err := identity.Parse(l.owner); {
	case err != nil || l.owner == "" || l.owner == (toolroom.Identity{}).Key():
		return ""
	case l.owner == who.Key():
		return " --as " + l.owner
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
	l := s.linkOf(s.ownerOf(who))
	if l.auth == nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s does not use a login: it is a program on this machine, or its config sets the Authorization header", s.o.Namespace)
	}
	return l.auth.Login(ctx, redirect, visit)
}

// ownerOf returns the owner name of the identity whose connection a caller uses. A login serves
// only callers with the same restrictions. Otherwise a restricted token could use the login of
// an unrestricted one, or log in on behalf of it.
func (s *Source) ownerOf(who toolroom.Identity) string {
	if s.o.Shared || s.o.Auth == nil {
		return ""
	}
	return identity.Owner(who)
}

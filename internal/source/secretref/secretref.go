// Package secretref expands references to secrets in configuration:
// secret://scope/name and env://NAME.
package secretref

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Resolver returns the secret that ref names. It is called for each call of a tool,
// concurrently.
type Resolver func(ctx context.Context, ref string) (string, error)

var reference = regexp.MustCompile(`\b(?:secret|env)://[A-Za-z0-9_.-]+(?:/[A-Za-z0-9_.-]+)*`)

// In reports whether value refers to a secret.
func In(value string) bool { return reference.MatchString(value) }

// Secrets expands references for one call and remembers the secrets, so that they can be
// redacted from messages. It is not safe for concurrent use.
type Secrets struct {
	resolve Resolver
	known   []string
	// given holds the secret of each expanded reference.
	given map[string]string
}

// New returns the Secrets of one call. A nil resolver resolves no secret.
func New(resolve Resolver) *Secrets { return &Secrets{resolve: resolve} }

// Expand replaces each reference in value with its secret. Value must come
// from configuration, never from the arguments of a call: a caller that could write a
// reference could read the secret.
func (s *Secrets) Expand(ctx context.Context, value string) (string, error) {
	var failure error
	expanded := reference.ReplaceAllStringFunc(value, func(ref string) string {
		if failure != nil {
			return ""
		}
		secret, err := s.lookup(ctx, ref)
		failure = err
		return secret
	})
	if failure != nil {
		return "", failure
	}
	return expanded, nil
}

func (s *Secrets) lookup(ctx context.Context, ref string) (string, error) {
	if s.resolve == nil {
		return "", toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be resolved: no secret store is configured", ref)
	}
	secret, err := s.resolve(ctx, ref)
	var typed *toolroom.Error
	switch {
	case err == nil:
		s.Hide(secret)
		if s.given == nil {
			s.given = map[string]string{}
		}
		s.given[ref] = secret
		return secret, nil
	case errors.As(err, &typed):
		return "", typed
	case ctx.Err() != nil:
		return "", ctx.Err()
	default:
		// The text of another error may quote the secret.
		return "", &toolroom.Error{
			Code:    toolroom.CodeExecutionFailed,
			Message: ref + " cannot be read",
			Hint:    "store the secret under that name, or correct the reference in the source's config",
			Cause:   err,
		}
	}
}

// Renewed reports whether a service that refused the secrets may accept the current ones.
// It resolves them again, past any cache.
func (s *Secrets) Renewed(ctx context.Context) bool {
	changed := false
	for ref, old := range s.given {
		value, err := s.resolve(WithFresh(ctx), ref)
		changed = changed || err == nil && value != old
	}
	return changed
}

// minHidden is the length of the shortest redacted secret. A secret of one or two letters
// would make messages unreadable.
const minHidden = 4

// Hide adds a value, such as an encoded form of a secret, to those that Redact removes.
func (s *Secrets) Hide(value string) {
	if len(value) >= minHidden {
		s.known = append(s.known, value)
		// Longest first: a secret may be part of another.
		slices.SortFunc(s.known, func(a, b string) int { return len(b) - len(a) })
	}
}

// Redact replaces all expanded secrets in text.
func (s *Secrets) Redact(text string) string {
	for _, secret := range s.known {
		text = strings.ReplaceAll(text, secret, "[secret]")
	}
	return text
}

// scope holds the values of a context that concern the resolution of secret references.
type scope struct {
	caller string
	fresh  bool
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope)
	return s
}

// WithCaller returns a context in which references are resolved on behalf of an identity,
// given by its key. Empty means the values that all callers share.
func WithCaller(ctx context.Context, identity string) context.Context {
	s := scopeOf(ctx)
	s.caller = identity
	return context.WithValue(ctx, scopeKey{}, s)
}

// Caller returns the identity of [WithCaller], or "" if there is none.
func Caller(ctx context.Context) string { return scopeOf(ctx).caller }

// WithFresh returns a context in which values are read from their stores, not from memory,
// because a service has just refused the remembered ones.
func WithFresh(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	s.fresh = true
	return context.WithValue(ctx, scopeKey{}, s)
}

// Fresh reports whether ctx is from [WithFresh].
func Fresh(ctx context.Context) bool { return scopeOf(ctx).fresh }

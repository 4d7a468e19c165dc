// Package token creates and verifies the bearer tokens of remote callers. [Create]
// returns the plaintext of a token once, and a [Store] keeps only its hash. A
// [Verifier] finds the identity for the plaintext in a request.
package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/visible"
)

// Token is the record of a bearer token. Hash is the SHA-256 of the plaintext, which
// has 256 random bits and so needs no slow hash.
type Token struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Hash    []byte   `json:"-"`
	Subject string   `json:"subject"`
	Groups  []string `json:"groups,omitempty"`
	// Agent, Provider and Skill are those of the identity; each may be empty.
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Skill    string `json:"skill,omitempty"`
	// Set is the tool set that the token is bound to; empty means none.
	Set string `json:"set,omitempty"`
	// Environment is the environment that the token is bound to; empty means that each call
	// chooses.
	Environment string `json:"environment,omitempty"`

	Created time.Time `json:"created"`
	// Expires is the time at which the token expires; zero means never.
	Expires time.Time `json:"expires,omitzero"`
	// LastUsed is exact to about a minute.
	LastUsed time.Time `json:"last_used,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
}

// Identity returns the identity of the token's bearer.
func (t *Token) Identity() toolroom.Identity {
	return toolroom.Identity{
		Subject: t.Subject, Token: t.ID, Groups: slices.Clone(t.Groups),
		Agent: t.Agent, Provider: t.Provider, Skill: t.Skill, Set: t.Set, Environment: t.Environment,
	}
}

// Store stores tokens. Its methods are safe for concurrent use, also by several
// processes with one store.
type Store interface {
	// CreateToken stores a token durably. If the id is taken, the error has code
	// conflict.
	CreateToken(ctx context.Context, t *Token) error
	// Token returns the token with an id. If there is none, the error has code
	// not_found.
	Token(ctx context.Context, id string) (*Token, error)
	// Tokens returns all tokens, oldest first.
	Tokens(ctx context.Context) ([]*Token, error)
	// RevokeToken revokes a token durably. Revoking it again does nothing. If there
	// is no such token, the error has code not_found.
	RevokeToken(ctx context.Context, id string, now time.Time) error
	// TouchToken records that a token was used. It ignores unknown ids.
	TouchToken(ctx context.Context, id string, now time.Time) error

	// EndSession durably ends a session of the page, which would last until expires.
	// Ending it again does nothing.
	EndSession(ctx context.Context, id string, expires time.Time) error
	// SessionEnded reports whether EndSession has ended a session.
	SessionEnded(ctx context.Context, id string) (bool, error)
}

// Options describe a new token.
type Options struct {
	// Name is a name for people; the default is Subject.
	Name string
	// Subject is the subject of the bearer's identity; the default is Name. One of
	// the two is required. It cannot be "local", which is the local operator.
	Subject string
	Groups  []string
	// Agent, Provider and Skill are those of the bearer's identity. If one is
	// empty, the bearer may name it in each request.
	Agent, Provider, Skill string
	// Set is the tool set that the token is bound to, and Environment the environment; empty
	// means none.
	Set, Environment string
	// Now is the current time; zero means time.Now().
	Now time.Time
	// TTL is how long the token is valid; zero means for ever.
	TTL time.Duration
}

// Create creates a token and stores it. It returns the plaintext, tr_<id>_<secret>,
// which cannot be recovered later.
func Create(ctx context.Context, store Store, opts Options) (plaintext string, t Token, err error) {
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	t = Token{
		ID:      strings.ToLower(rand.Text()[:12]),
		Name:    cmp.Or(opts.Name, opts.Subject),
		Subject: cmp.Or(opts.Subject, opts.Name),
		Groups:  trimmed(opts.Groups),
		Agent:   opts.Agent, Provider: opts.Provider, Skill: opts.Skill, Set: opts.Set, Environment: opts.Environment,
		Created: opts.Now,
	}
	switch {
	case t.Subject == "":
		return "", Token{}, invalid("a token needs a subject", "name the caller, for example: toolroom token create ann")
	case t.Subject == (toolroom.Identity{}).Key():
		return "", Token{}, invalid(fmt.Sprintf("the subject %q is reserved for the local operator, who needs no token", t.Subject), "choose another subject")
	case slices.ContainsFunc(append([]string{t.Name, t.Subject, t.Agent, t.Provider, t.Skill}, t.Groups...), hasHiddenText):
		return "", Token{}, invalid("a name of the token has characters that cannot be seen, such as control characters", "use letters, digits and punctuation")
	case opts.TTL < 0:
		return "", Token{}, invalid(fmt.Sprintf("a token cannot be valid for %v", opts.TTL), "use a positive duration, or omit it for a token that never expires")
	case opts.TTL > 0:
		t.Expires = opts.Now.Add(opts.TTL)
	}
	// Each text has at least 128 random bits.
	plaintext = prefix + t.ID + "_" + strings.ToLower(rand.Text()+rand.Text())
	sum := sha256.Sum256([]byte(plaintext))
	t.Hash = sum[:]
	if err := store.CreateToken(ctx, &t); err != nil {
		return "", Token{}, fmt.Errorf("create token %s: %w", t.Name, err)
	}
	return plaintext, t, nil
}

// trimmed returns names without surrounding spaces, which are easily overlooked in a list: in
// "ops, release" the second group has one.
func trimmed(names []string) []string {
	var out []string
	for _, name := range names {
		out = append(out, strings.TrimSpace(name))
	}
	return out
}

// hasHiddenText reports whether a name has characters that a reader does not see.
func hasHiddenText(name string) bool {
	return visible.Text(name) != name || strings.ContainsFunc(name, unicode.IsControl)
}

// makeExpiryFinal makes an expired token stay expired if the clock is set back. It ignores errors:
// the token is refused now in any case.
func (t *Token) makeExpiryFinal(ctx context.Context, store Store) {
	if t.Revoked.IsZero() {
		_ = store.RevokeToken(ctx, t.ID, t.Expires)
	}
}

// ErrExpired is the cause of the error of [Verifier.Verify] for a token that has expired.
var ErrExpired = errors.New("the token has expired")

// The ways in which a token ends.
const (
	revoked = "was revoked"
	expired = "has expired"
)

// ended returns how the token has ended, or an empty text if it is valid.
func (t *Token) ended(now time.Time) string {
	switch {
	case !t.Revoked.IsZero() && !t.Revoked.Equal(t.Expires): // see makeExpiryFinal
		return revoked
	case !t.Revoked.IsZero() || !t.Expires.IsZero() && !now.Before(t.Expires):
		return expired
	default:
		return ""
	}
}

const (
	prefix = "tr_"
	// maxPlaintext is well over the 69 bytes of a token. Longer texts are refused
	// without a lookup.
	maxPlaintext = 128
)

func idOf(plaintext string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(plaintext, prefix)
	if !ok || len(plaintext) > maxPlaintext {
		return "", false
	}
	id, secret, ok := strings.Cut(rest, "_")
	return id, ok && id != "" && secret != ""
}

// unauthenticated returns an error whose message does not help to guess a token. Only
// its cause has the reason.
func unauthenticated(reason string) *toolroom.Error {
	return &toolroom.Error{
		Code:    toolroom.CodeUnauthenticated,
		Message: "the bearer token is not valid",
		Hint:    "ask the operator for a new one",
		CLIHint: "toolroom token create NAME",
		Cause:   errors.New(reason),
	}
}

func invalid(message, hint string) *toolroom.Error {
	return &toolroom.Error{Code: toolroom.CodeInvalidArguments, Message: message, Hint: hint}
}

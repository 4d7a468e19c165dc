// Package token makes and checks the bearer tokens of remote callers. [Create]
// gives the plaintext out once; a [Store] keeps only its hash; a [Verifier]
// turns the plaintext of a request back into an identity.
package token

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Token is what Toolroom knows of a bearer token. Hash is the SHA-256 of the
// plaintext, which has 256 random bits and needs no slow hash.
type Token struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Hash    []byte   `json:"-"`
	Subject string   `json:"subject"`
	Groups  []string `json:"groups,omitempty"`
	// Agent, Provider and Skill are what its holder acts as, each if the token
	// says so.
	Agent    string `json:"agent,omitempty"`
	Provider string `json:"provider,omitempty"`
	Skill    string `json:"skill,omitempty"`

	Created time.Time `json:"created"`
	// Expires is the end of the token; zero is never.
	Expires time.Time `json:"expires,omitzero"`
	// LastUsed is exact to about a minute.
	LastUsed time.Time `json:"last_used,omitzero"`
	Revoked  time.Time `json:"revoked,omitzero"`
}

// Identity is whom the token stands for.
func (t *Token) Identity() toolroom.Identity {
	return toolroom.Identity{
		Subject: t.Subject, Groups: slices.Clone(t.Groups),
		Agent: t.Agent, Provider: t.Provider, Skill: t.Skill,
	}
}

// Store holds tokens. Its methods are safe for concurrent use, also by several
// processes on one store.
type Store interface {
	// CreateToken stores a token, durably. An id that is taken is a conflict.
	CreateToken(ctx context.Context, t *Token) error
	// Token is one by id, or an error with code not_found.
	Token(ctx context.Context, id string) (*Token, error)
	// Tokens lists all, oldest first.
	Tokens(ctx context.Context) ([]*Token, error)
	// RevokeToken ends a token, durably. Revoking again changes nothing; an
	// unknown id is not_found.
	RevokeToken(ctx context.Context, id string, now time.Time) error
	// TouchToken notes that a token was used. An unknown id is no error.
	TouchToken(ctx context.Context, id string, now time.Time) error
}

// Options describe a new token.
type Options struct {
	// Name is for people; default Subject.
	Name string
	// Subject is whom the token stands for; default Name. One of the two is
	// needed, and it cannot be "local", which is the local operator.
	Subject string
	Groups  []string
	// Agent, Provider and Skill are what its holder acts as. One that is empty
	// is the holder's to name at each request.
	Agent, Provider, Skill string
	// Now is the present time; zero is time.Now().
	Now time.Time
	// TTL is how long the token holds; zero is for ever.
	TTL time.Duration
}

// Create makes a token and stores it. The plaintext, tr_<id>_<secret>, cannot
// be had again.
func Create(ctx context.Context, store Store, opts Options) (plaintext string, t Token, err error) {
	if opts.Now.IsZero() {
		opts.Now = time.Now()
	}
	t = Token{
		ID:      strings.ToLower(rand.Text()[:12]),
		Name:    cmp.Or(opts.Name, opts.Subject),
		Subject: cmp.Or(opts.Subject, opts.Name),
		Groups:  opts.Groups,
		Agent:   opts.Agent, Provider: opts.Provider, Skill: opts.Skill,
		Created: opts.Now,
	}
	switch {
	case t.Subject == "":
		return "", Token{}, invalid("a token needs a subject", "say whom the token stands for, for example: toolroom token create ann")
	case t.Subject == (toolroom.Identity{}).Key():
		return "", Token{}, invalid(fmt.Sprintf("the subject %q is the local operator, who needs no token", t.Subject), "choose another subject")
	case opts.TTL < 0:
		return "", Token{}, invalid(fmt.Sprintf("a token cannot hold for %v", opts.TTL), "give a positive time, or none for a token without end")
	case opts.TTL > 0:
		t.Expires = opts.Now.Add(opts.TTL)
	}
	// Two texts of at least 128 random bits each.
	plaintext = prefix + t.ID + "_" + strings.ToLower(rand.Text()+rand.Text())
	sum := sha256.Sum256([]byte(plaintext))
	t.Hash = sum[:]
	if err := store.CreateToken(ctx, &t); err != nil {
		return "", Token{}, fmt.Errorf("create token %s: %w", t.Name, err)
	}
	return plaintext, t, nil
}

// find gives the usable token that a plaintext is, or the error of
// [Verifier.Verify].
func find(ctx context.Context, store Store, plaintext string, now time.Time) (*Token, error) {
	id, ok := idOf(plaintext)
	if !ok {
		return nil, unauthenticated("it has not the form of a token")
	}
	t, err := store.Token(ctx, id)
	switch {
	case toolroom.CodeOf(err) == toolroom.CodeNotFound:
		return nil, unauthenticated("there is no token " + id)
	case err != nil:
		return nil, fmt.Errorf("look up a token: %w", err)
	}
	sum := sha256.Sum256([]byte(plaintext))
	if subtle.ConstantTimeCompare(sum[:], t.Hash) != 1 {
		return nil, unauthenticated("the secret of token " + id + " is wrong")
	}
	if err := t.usable(now); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Token) usable(now time.Time) error {
	switch {
	case !t.Revoked.IsZero():
		return unauthenticated("token " + t.ID + " is revoked")
	case !t.Expires.IsZero() && !now.Before(t.Expires):
		return unauthenticated("token " + t.ID + " is expired")
	default:
		return nil
	}
}

const (
	prefix = "tr_"
	// maxPlaintext is well over the 69 bytes of a token, so that long garbage
	// is not looked at.
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

// unauthenticated tells the caller nothing that would help to guess.
func unauthenticated(reason string) *toolroom.Error {
	return &toolroom.Error{
		Code:    toolroom.CodeUnauthenticated,
		Message: "the bearer token is not valid",
		Hint:    "ask the operator for a new one (toolroom token create)",
		Cause:   errors.New(reason),
	}
}

func invalid(message, hint string) *toolroom.Error {
	return &toolroom.Error{Code: toolroom.CodeInvalidArguments, Message: message, Hint: hint}
}

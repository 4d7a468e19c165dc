// Package keyring reads secrets from the keyring of the operating system: the
// Secret Service on Linux, Keychain on macOS, Credential Manager on Windows.
package keyring

import (
	"context"
	"errors"

	"github.com/zalando/go-keyring"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// Store is a [secret.Backend]. An item has the service "toolroom", or Service,
// and as its user scope/name, with @ and the identity for a caller's own value.
type Store struct {
	Service string
}

func (s *Store) service() string {
	if s.Service == "" {
		return "toolroom"
	}
	return s.Service
}

// Get reads an item.
func (s *Store) Get(ctx context.Context, ref secret.Ref) (string, error) {
	user := ref.Scope + "/" + ref.Name
	if ref.Owner != "" {
		user += "@" + ref.Owner
	}
	value, err := within(ctx, func() (string, error) { return keyring.Get(s.service(), user) })
	if errors.Is(err, keyring.ErrNotFound) {
		return "", secret.Unset(ref, "service "+s.service()+", user "+user+" of the keyring")
	}
	return value, err
}

// Key reads an item that holds the key of the encrypted file.
func (s *Store) Key(ctx context.Context, user string) (string, error) {
	return within(ctx, func() (string, error) { return keyring.Get(s.service(), user) })
}

// Probe reports why there is no keyring here, nil when there is one.
func Probe(ctx context.Context) error {
	_, err := within(ctx, func() (string, error) { return keyring.Get("toolroom", "probe") })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// within gives up when ctx ends: a locked keyring waits for a person, and its
// library cannot be told to stop.
func within(ctx context.Context, get func() (string, error)) (string, error) {
	type answer struct {
		value string
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		value, err := get()
		done <- answer{value, err}
	}()
	select {
	case a := <-done:
		if a.err == nil || errors.Is(a.err, keyring.ErrNotFound) {
			return a.value, a.err
		}
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "there is no keyring that answers: %w", a.err).
			WithHint("a keyring belongs to a desktop session; on a server use the encrypted file, or another store")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

package backend

import (
	"context"
	"errors"

	"github.com/zalando/go-keyring"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// Keyring reads secrets from the keyring of the operating system: the Secret Service
// on Linux, Keychain on macOS, Credential Manager on Windows. The user of an item is
// scope/name, or scope/name@identity for a caller's own value.
type Keyring struct {
	// Service is the service of the items. The default is "toolroom".
	Service string
}

func (s *Keyring) service() string {
	if s.Service == "" {
		return "toolroom"
	}
	return s.Service
}

// Get reads an item.
func (s *Keyring) Get(ctx context.Context, ref secret.Ref) (string, error) {
	user := ref.Scope + "/" + ref.Name
	if ref.Owner != "" {
		user += "@" + ref.Owner
	}
	value, err := untilDone(ctx, func() (string, error) { return keyring.Get(s.service(), user) })
	if errors.Is(err, keyring.ErrNotFound) {
		return "", secret.NotSetError(ref, "service "+s.service()+", user "+user+" of the keyring")
	}
	return value, err
}

// Key returns the item that contains the key of the encrypted file.
func (s *Keyring) Key(ctx context.Context, user string) (string, error) {
	return untilDone(ctx, func() (string, error) { return keyring.Get(s.service(), user) })
}

// ProbeKeyring returns nil if a keyring responds, or the error that says why not.
func ProbeKeyring(ctx context.Context) error {
	_, err := untilDone(ctx, func() (string, error) { return keyring.Get("toolroom", "probe") })
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// untilDone returns when ctx is done, even if get has not returned: a locked keyring
// waits for a person, and its library cannot be cancelled.
func untilDone(ctx context.Context, get func() (string, error)) (string, error) {
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
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "no keyring responds: %w", a.err).
			WithHint("a keyring belongs to a desktop session; on a server use the encrypted file, or another store")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

package secret

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
)

// MaxValue is the length of the longest value, in bytes.
const MaxValue = 64 << 10

// lockRetry is the interval at which a locked file is tried again.
const lockRetry = 10 * time.Millisecond

// Options are the options of a Store.
type Options struct {
	// Key encrypts the values: 32 bytes. If it is nil, the key is in a file beside the values,
	// which the first Set makes.
	Key []byte
}

// Store is the file of encrypted values under Toolroom's home. Its methods are
// safe for concurrent use, also by several processes.
//
//	secrets.json   one AES-256-GCM text per value, bound to its name
//	secrets.key    the key, readable by the owner alone
//	secrets.lock   held while secrets.json changes
type Store struct {
	home     string
	o        Options
	redactor Redactor
}

// RecordPrefix begins the names of records. A record contains secrets but is not one itself; see
// [Store.SetRecord].
const RecordPrefix = "oauth."

// Open opens the store in the folder home, which must exist. The [Redactor] learns all values in
// it, except those of records.
func Open(home string, o Options) (*Store, error) {
	if o.Key != nil && len(o.Key) != KeyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the key of the secrets has %d bytes, want %d", len(o.Key), KeyBytes)
	}
	s := &Store{home: home, o: o}
	v, err := s.read()
	if err != nil || len(v.Secrets) == 0 {
		return s, err
	}
	c, err := s.existingCipher()
	if err != nil {
		return nil, err
	}
	values := make(map[Ref]string, len(v.Secrets))
	for path := range v.Secrets {
		ref, err := parseKey(path)
		if err != nil {
			return nil, s.damaged(err)
		}
		if strings.HasPrefix(ref.Name, RecordPrefix) {
			continue // the reader of a record teaches the redactor its secrets
		}
		if values[ref], err = c.open(v, ref); err != nil {
			return nil, err
		}
	}
	s.redactor.Learn(values)
	return s, nil
}

// Redactor returns the redactor, which knows every value that was in the store when it was opened,
// and every one that was set since.
func (s *Store) Redactor() *Redactor { return &s.redactor }

// Set stores a value as secret://scope/name and replaces an earlier one. It rejects values that
// are too short to redact, and empty ones, which are nearly always the mistake of a pipe.
func (s *Store) Set(ctx context.Context, ref Ref, value string) error {
	if err := ref.checkStorable(); err != nil {
		return err
	}
	if value == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s is empty", ref).
			WithCLIHint("pipe the value in: printf %%s … | toolroom secret set %s", ref.path())
	}
	if len(value) < MinRedacted {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s has %d bytes; a value under %d bytes occurs by chance, so it cannot be redacted", ref, len(value), MinRedacted).
			WithHint("use a longer secret; if it is not a secret, write it into toolroom.yaml")
	}
	if len(value) > MaxValue {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the value of %s has %d bytes, at most %d are kept", ref, len(value), MaxValue)
	}
	s.redactor.Learn(map[Ref]string{ref: value})
	return s.setValue(ctx, ref, value)
}

// SetRecord stores a document that contains secrets, and replaces an earlier one. The [Redactor]
// learns the secrets, but not the document, which changes with each of them. The name must begin
// with [RecordPrefix].
func (s *Store) SetRecord(ctx context.Context, ref Ref, record string, secrets []string) error {
	if err := ref.checkStorable(); err != nil {
		return err
	}
	if len(record) > MaxValue {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%s has %d bytes, at most %d are kept", ref, len(record), MaxValue)
	}
	s.redactor.LearnAll(ref, secrets)
	return s.setValue(ctx, ref, record)
}

func (s *Store) setValue(ctx context.Context, ref Ref, value string) error {
	return s.update(ctx, func(v *vault) error {
		c, err := s.cipherFor(v)
		if err != nil {
			return err
		}
		c.seal(v, ref, value)
		return nil
	})
}

// Remove removes a value. If there is none, the error has the code not_found.
func (s *Store) Remove(ctx context.Context, ref Ref) error {
	if err := ref.checkStorable(); err != nil {
		return err
	}
	return s.update(ctx, func(v *vault) error {
		if _, ok := v.Secrets[ref.key()]; !ok {
			return toolroom.Errorf(toolroom.CodeNotFound, "%s is not set", ref).WithCLIHint("see what is set: toolroom secret list")
		}
		delete(v.Secrets, ref.key())
		return nil
	})
}

// List returns the references of all stored values, sorted, but not the values.
func (s *Store) List() ([]Ref, error) {
	v, err := s.read()
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for _, path := range slices.Sorted(maps.Keys(v.Secrets)) {
		ref, err := parseKey(path)
		if err != nil {
			return nil, s.damaged(err)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// Get implements [Backend].
func (s *Store) Get(ctx context.Context, ref Ref) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	v, err := s.read()
	if err != nil {
		return "", err
	}
	if _, ok := v.Secrets[ref.key()]; !ok {
		return "", ref.unset()
	}
	c, err := s.existingCipher()
	if err != nil {
		return "", err
	}
	return c.open(v, ref)
}

// update runs f on the vault and writes the vault back. No other process can change it meanwhile.
func (s *Store) update(ctx context.Context, f func(*vault) error) (err error) {
	lock := flock.New(s.path("secrets.lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return toolroom.Errorf(toolroom.CodeOf(err), "the secrets in %s cannot be locked: %w", s.home, err)
	}
	defer func() { _ = lock.Close() }()
	v, err := s.read()
	if err != nil {
		return err
	}
	if err := f(v); err != nil {
		return err
	}
	return s.write(v)
}

// LockRecord locks a record. It waits until no other holder of the lock, in this or another
// process, has it.
func (s *Store) LockRecord(ctx context.Context, ref Ref) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(ref.key()))
	lock := flock.New(s.path("login-"+hex.EncodeToString(sum[:8])+".lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeOf(err), "the login in %s cannot be locked: %w", s.home, err)
	}
	return func() { _ = lock.Close() }, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.home, name) }

// checkStorable returns an error if a store cannot keep the value of r.
func (r Ref) checkStorable() error {
	if r.Scope == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is a variable of the environment and is not kept here", r).
			WithHint("name it scope/name, for example %s", strings.ToLower("env/"+r.Name))
	}
	_, err := ParsePath(r.path())
	return err
}

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

// MaxValue is the longest value, in bytes.
const MaxValue = 64 << 10

// lockRetry is how often a taken file lock is tried again.
const lockRetry = 10 * time.Millisecond

// Options are what a Store needs from outside.
type Options struct {
	// Key encrypts the values: 32 bytes. When nil, the key lies in a file of
	// its own beside the values, made at the first Set.
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

// RecordPrefix begins the names of records, which are no secrets as a whole: see
// [Store.SetRecord].
const RecordPrefix = "oauth."

// Open makes a store of the folder home, which must exist. All values that are
// there, but records, are known to the [Redactor] from then on.
func Open(home string, o Options) (*Store, error) {
	if o.Key != nil && len(o.Key) != KeyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the key of the secrets has %d bytes, want %d", len(o.Key), KeyBytes)
	}
	s := &Store{home: home, o: o}
	v, err := s.read()
	if err != nil || len(v.Secrets) == 0 {
		return s, err
	}
	box, err := s.box()
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
			continue // whoever reads the record has its secrets learned
		}
		if values[ref], err = box.open(v, ref); err != nil {
			return nil, err
		}
	}
	s.redactor.Learn(values)
	return s, nil
}

// Redactor knows every value that was in the store when it was opened, and every
// one that was set since.
func (s *Store) Redactor() *Redactor { return &s.redactor }

// Set keeps a value under secret://scope/name, replacing an earlier one. Empty
// values are refused, for they are nearly always a mistake of a pipe, and those
// too short to redact.
func (s *Store) Set(ctx context.Context, ref Ref, value string) error {
	if err := ref.keepable(); err != nil {
		return err
	}
	if value == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s is empty", ref).
			WithCLIHint("pipe the value in: printf %%s … | toolroom secret set %s", ref.path())
	}
	if len(value) < MinRedacted {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s has %d bytes; under %d it cannot be redacted, for it occurs by chance everywhere", ref, len(value), MinRedacted).
			WithHint("use a longer secret; what is no secret can stand in toolroom.yaml")
	}
	if len(value) > MaxValue {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the value of %s has %d bytes, at most %d are kept", ref, len(value), MaxValue)
	}
	s.redactor.Learn(map[Ref]string{ref: value})
	return s.put(ctx, ref, value)
}

// SetRecord keeps a document that has secrets in it, replacing an earlier one. The
// [Redactor] learns those, and not the document, which changes with each of them.
// The name begins with [RecordPrefix].
func (s *Store) SetRecord(ctx context.Context, ref Ref, record string, secrets []string) error {
	if err := ref.keepable(); err != nil {
		return err
	}
	if len(record) > MaxValue {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%s has %d bytes, at most %d are kept", ref, len(record), MaxValue)
	}
	s.redactor.LearnAll(ref, secrets)
	return s.put(ctx, ref, record)
}

func (s *Store) put(ctx context.Context, ref Ref, value string) error {
	return s.change(ctx, func(v *vault) error {
		box, err := s.boxFor(v)
		if err != nil {
			return err
		}
		box.seal(v, ref, value)
		return nil
	})
}

// Remove forgets a value. The error has code not_found when there is none.
func (s *Store) Remove(ctx context.Context, ref Ref) error {
	if err := ref.keepable(); err != nil {
		return err
	}
	return s.change(ctx, func(v *vault) error {
		if _, ok := v.Secrets[ref.key()]; !ok {
			return toolroom.Errorf(toolroom.CodeNotFound, "%s is not set", ref).WithCLIHint("see what is set: toolroom secret list")
		}
		delete(v.Secrets, ref.key())
		return nil
	})
}

// List names what is kept, in order. It never gives values.
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
	box, err := s.box()
	if err != nil {
		return "", err
	}
	return box.open(v, ref)
}

// change runs f on the vault while no other process can change it.
func (s *Store) change(ctx context.Context, f func(*vault) error) (err error) {
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

// LockRecord waits until no other process, and nobody else in this one, holds the lock of
// a record, and takes it.
func (s *Store) LockRecord(ctx context.Context, ref Ref) (unlock func(), err error) {
	sum := sha256.Sum256([]byte(ref.key()))
	lock := flock.New(s.path("login-"+hex.EncodeToString(sum[:8])+".lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeOf(err), "the login in %s cannot be locked: %w", s.home, err)
	}
	return func() { _ = lock.Close() }, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.home, name) }

// keepable refuses what a store cannot keep.
func (r Ref) keepable() error {
	if r.Scope == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is a variable of the environment and is not kept here", r).
			WithHint("name it scope/name, for example %s", strings.ToLower("env/"+r.Name))
	}
	_, err := ParsePath(r.path())
	return err
}

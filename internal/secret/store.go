package secret

import (
	"context"
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
	home   string
	o      Options
	masker Masker
}

// Open makes a store of the folder home, which must exist. All values that are
// there are known to the [Masker] from then on.
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
		if values[ref], err = box.open(v, ref); err != nil {
			return nil, err
		}
	}
	s.masker.Learn(values)
	return s, nil
}

// Masker knows every value that was in the store when it was opened, and every
// one that was set since.
func (s *Store) Masker() *Masker { return &s.masker }

// Set keeps a value under secret://scope/name, replacing an earlier one. Empty
// values are refused, for they are nearly always a mistake of a pipe, and those
// too short to mask.
func (s *Store) Set(ctx context.Context, ref Ref, value string) error {
	if err := ref.keepable(); err != nil {
		return err
	}
	if value == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s is empty", ref).
			WithHint("pipe the value in: printf %%s … | toolroom secret set %s", ref.path())
	}
	if len(value) < MinMasked {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s has %d bytes; under %d it cannot be masked, for it occurs by chance everywhere", ref, len(value), MinMasked).
			WithHint("use a longer secret; what is no secret can stand in toolroom.yaml")
	}
	if len(value) > MaxValue {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the value of %s has %d bytes, at most %d are kept", ref, len(value), MaxValue)
	}
	return s.change(ctx, func(v *vault) error {
		box, err := s.boxFor(v)
		if err != nil {
			return err
		}
		s.masker.Learn(map[Ref]string{ref: value})
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
			return toolroom.Errorf(toolroom.CodeNotFound, "%s is not set", ref).WithHint("see what is set: toolroom secret list")
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

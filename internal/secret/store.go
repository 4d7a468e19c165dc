package secret

import (
	"cmp"
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
	// LookupEnv resolves env:// references, as os.LookupEnv does; nil knows no
	// variable.
	LookupEnv func(name string) (string, bool)
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
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.Key != nil && len(o.Key) != keyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the key of the secrets has %d bytes, want %d", len(o.Key), keyBytes)
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
		ref, err := ParsePath(path)
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
// one that was set or resolved since.
func (s *Store) Masker() *Masker { return &s.masker }

// Set keeps a value under secret://scope/name, replacing an earlier one. Empty
// values are refused, for they are nearly always a mistake of a pipe.
func (s *Store) Set(ctx context.Context, ref Ref, value string) error {
	if err := ref.keepable(); err != nil {
		return err
	}
	if value == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the value of %s is empty", ref).
			WithHint("pipe the value in: printf %%s … | toolroom secret set %s", ref.path())
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
		if _, ok := v.Secrets[ref.path()]; !ok {
			return toolroom.Errorf(toolroom.CodeNotFound, "%s is not set", ref).WithHint("see what is set: toolroom secret list")
		}
		delete(v.Secrets, ref.path())
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
		ref, err := ParsePath(path)
		if err != nil {
			return nil, s.damaged(err)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// Resolve gives the value of a reference. An error names the reference and what
// to type, never a value; it has code not_found when nothing is set.
func (s *Store) Resolve(ctx context.Context, reference string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ref, err := ParseRef(reference)
	if err != nil {
		return "", err
	}
	value, err := s.value(ref)
	if err != nil {
		return "", err
	}
	s.masker.Learn(map[Ref]string{ref: value})
	return value, nil
}

// ExpandAll gives a copy of values in which every reference is replaced by its
// value, also within a text: "Bearer secret://github/token". It serves the env
// and headers of sources. Errors are those of Resolve.
func (s *Store) ExpandAll(ctx context.Context, values map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var failed error
		out[key] = reference.ReplaceAllStringFunc(values[key], func(ref string) string {
			value, err := s.Resolve(ctx, ref)
			failed = cmp.Or(failed, err)
			return value
		})
		if failed != nil {
			return nil, failed
		}
	}
	return out, nil
}

func (s *Store) value(ref Ref) (string, error) {
	if ref.Scope == "" {
		value, _ := s.o.LookupEnv(ref.Name)
		if value == "" {
			return "", ref.unset()
		}
		return value, nil
	}
	v, err := s.read()
	if err != nil {
		return "", err
	}
	if _, ok := v.Secrets[ref.path()]; !ok {
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

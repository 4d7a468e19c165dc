package secret

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// Backend is a place where values are kept. Its methods are safe for concurrent
// use.
type Backend interface {
	// Get returns the value of a reference; with an Owner, the value of that identity. The
	// error has code not_found when there is none, and never shows a value. The
	// resolver remembers the answer. Cancelling ctx ends the work.
	Get(ctx context.Context, ref Ref) (string, error)
}

// Whose values a scope has.
const (
	// Shared is one value for everybody.
	Shared = "shared"
	// Own is a value of each caller; who has none gets none.
	Own = "own"
	// OwnOrShared is the caller's own value, or else the shared one.
	OwnOrShared = "own_or_shared"
)

// Scope says where the values of a scope are, and whose they are.
type Scope struct {
	// Backend keeps them; nil is the encrypted file.
	Backend Backend
	// Values is Shared (the default), Own or OwnOrShared.
	Values string
}

// ResolverOptions configure a Resolver.
type ResolverOptions struct {
	Scopes map[string]Scope
	// LookupEnv resolves env:// references, as os.LookupEnv does; nil knows no
	// variable.
	LookupEnv func(name string) (string, bool)
	// Variables are those that env:// may name; nil allows all.
	Variables []string
	// TTL is how long values of backends other than the file are remembered (5
	// min). A negative one remembers nothing.
	TTL time.Duration
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	defaultTTL = 5 * time.Minute
	// fetchTimeout bounds one look into a backend, which several callers may
	// wait for.
	fetchTimeout = 30 * time.Second
)

// Resolver resolves references: it knows the backend of each scope, remembers
// values for a while, and tells the [Redactor] of every one. Its methods are safe
// for concurrent use.
type Resolver struct {
	file *Store

	mu  sync.Mutex
	now *configured
}

// configured are options, and what the backends in them are asked and have answered. What
// began with earlier options must not serve those of later ones.
type configured struct {
	ResolverOptions
	flights singleflight.Group
	known   map[Ref]remembered // guarded by the lock of the Resolver
}

type remembered struct {
	value   string
	expires time.Time
}

// NewResolver returns a Resolver over the encrypted file.
func NewResolver(file *Store, o ResolverOptions) *Resolver {
	r := &Resolver{file: file}
	r.Configure(o)
	return r
}

// Configure puts other options in force and forgets what is remembered.
func (r *Resolver) Configure(o ResolverOptions) {
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.TTL = cmp.Or(o.TTL, defaultTTL)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = &configured{ResolverOptions: o, known: map[Ref]remembered{}}
}

func (r *Resolver) options() *configured {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// Resolve returns the value of a reference for the caller that ctx names (see
// [secretref.WithCaller]). An error names the reference and what to type, never
// a value; it has code not_found when nothing is set.
func (r *Resolver) Resolve(ctx context.Context, reference string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ref, err := ParseRef(reference)
	if err != nil {
		return "", err
	}
	o := r.options()
	value, from, err := r.value(ctx, ref, o)
	if err != nil {
		return "", err
	}
	if len(value) < MinRedacted && ref.Scope != "" {
		o.Log.Warn("a secret is too short to be redacted where it leaves", "secret", ref, "bytes", len(value), "least", MinRedacted)
	}
	r.file.redactor.Learn(map[Ref]string{from: value})
	return value, nil
}

// value gives the value and whose it is: the reference with its owner.
func (r *Resolver) value(ctx context.Context, ref Ref, o *configured) (value string, from Ref, err error) {
	if ref.Scope == "" {
		value, err = variable(ref, o)
		return value, ref, err
	}
	scope, caller := o.Scopes[ref.Scope], secretref.Caller(ctx)
	own := scope.Values == Own || scope.Values == OwnOrShared
	if own && caller == "" && scope.Values == Own {
		return "", ref, toolroom.Errorf(toolroom.CodeDenied, "%s is a value of each caller, and this is read for all of them", ref).
			WithHint("a program or connection that serves several callers needs a shared secret")
	}
	if own && caller != "" {
		value, err = r.fetch(ctx, ref.Of(caller), scope, o)
		if scope.Values == Own || toolroom.CodeOf(err) != toolroom.CodeNotFound {
			return value, ref.Of(caller), err
		}
	}
	value, err = r.fetch(ctx, ref, scope, o)
	return value, ref, err
}

func variable(ref Ref, o *configured) (string, error) {
	if o.Variables != nil && !slices.Contains(o.Variables, ref.Name) {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%s may not be read: secrets.variables does not name it", ref).
			WithHint("add %s to secrets.variables in toolroom.yaml", ref.Name)
	}
	value, _ := o.LookupEnv(ref.Name)
	if value == "" {
		return "", ref.unset()
	}
	return value, nil
}

// fetch asks the backend, once for all who want the same value at the same time.
func (r *Resolver) fetch(ctx context.Context, ref Ref, scope Scope, o *configured) (string, error) {
	if scope.Backend == nil {
		return r.file.Get(ctx, ref) // a change shows at once
	}
	r.mu.Lock()
	kept, ok := o.known[ref]
	r.mu.Unlock()
	if ok && o.Now().Before(kept.expires) && !secretref.Fresh(ctx) {
		return kept.value, nil
	}
	flight := o.flights.DoChan(ref.key(), func() (any, error) {
		// Whoever asked first may go away; the others still wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
		defer cancel()
		value, err := scope.Backend.Get(ctx, ref)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			err = toolroom.Errorf(toolroom.CodeTimeout, "%s: its store did not answer within %v", ref, fetchTimeout)
		}
		if err == nil && value == "" {
			err = ref.unset()
		}
		if err == nil && len(value) > MaxValue {
			err = toolroom.Errorf(toolroom.CodeResourceLimit, "%s has %d bytes, at most %d are taken", ref, len(value), MaxValue)
		}
		if err != nil {
			return "", err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if o.TTL > 0 {
			o.known[ref] = remembered{value, o.Now().Add(o.TTL)}
		}
		return value, nil
	})
	select {
	case done := <-flight:
		value, _ := done.Val.(string)
		return value, done.Err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// ExpandAll returns a copy of values in which every reference is replaced by its
// value, also within a text: "Bearer secret://github/token". It serves the env
// and headers of sources. Errors are those of Resolve.
func (r *Resolver) ExpandAll(ctx context.Context, values map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		var failed error
		out[key] = reference.ReplaceAllStringFunc(values[key], func(ref string) string {
			value, err := r.Resolve(ctx, ref)
			failed = cmp.Or(failed, err)
			return value
		})
		if failed != nil {
			return nil, failed
		}
	}
	return out, nil
}

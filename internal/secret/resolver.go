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

// Backend stores values. Its methods are safe for concurrent use.
type Backend interface {
	// Get returns the value of a reference, or of ref.Owner if that is set. If there is none,
	// the error has the code not_found. Errors never contain a value. The resolver caches the
	// value. Get ends when ctx is cancelled.
	Get(ctx context.Context, ref Ref) (string, error)
}

// The values of [Scope.Values].
const (
	// Shared means that all callers share one value.
	Shared = "shared"
	// Own means that each caller has a value of its own, or none.
	Own = "own"
	// OwnOrShared means the caller's own value or, if there is none, the shared one.
	OwnOrShared = "own_or_shared"
)

// Scope configures a scope: where its values are, and whose they are.
type Scope struct {
	// Backend stores the values. Nil means the encrypted file.
	Backend Backend
	// Values is Shared (the default), Own or OwnOrShared.
	Values string
}

// ResolverOptions configure a Resolver.
type ResolverOptions struct {
	Scopes map[string]Scope
	// LookupEnv resolves env:// references, as os.LookupEnv does. If it is nil, no variable is
	// set.
	LookupEnv func(name string) (string, bool)
	// Variables are the variables that env:// may name. Nil allows all.
	Variables []string
	// TTL is how long values of backends other than the file are cached (5 min). If it is
	// negative, they are not cached.
	TTL time.Duration
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	defaultTTL = 5 * time.Minute
	// fetchTimeout limits one request to a backend, for which several callers may wait.
	fetchTimeout = 30 * time.Second
)

// Resolver resolves references: it asks the backend of their scope, caches values for a while,
// and teaches the [Redactor] every value. Its methods are safe for concurrent use.
type Resolver struct {
	file *Store

	mu    sync.Mutex
	state *resolverState
}

// resolverState is the options with the pending requests and cached values of their backends.
// Results that were requested with earlier options must not be used with later ones.
type resolverState struct {
	ResolverOptions
	flights singleflight.Group
	cache   map[Ref]cachedValue // guarded by Resolver.mu
}

type cachedValue struct {
	value   string
	expires time.Time
}

// NewResolver returns a Resolver that uses file for scopes without a backend.
func NewResolver(file *Store, o ResolverOptions) *Resolver {
	r := &Resolver{file: file}
	r.Configure(o)
	return r
}

// Configure replaces the options and clears the cache.
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
	r.state = &resolverState{ResolverOptions: o, cache: map[Ref]cachedValue{}}
}

func (r *Resolver) currentState() *resolverState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Resolve returns the value of a reference for the caller that ctx names (see
// [secretref.WithCaller]). If none is set, the error has the code not_found. Errors name the
// reference and what to do, never a value.
func (r *Resolver) Resolve(ctx context.Context, reference string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ref, err := ParseRef(reference)
	if err != nil {
		return "", err
	}
	o := r.currentState()
	value, from, err := r.lookUp(ctx, ref, o)
	if err != nil {
		return "", err
	}
	if len(value) < MinRedacted && ref.Scope != "" {
		o.Log.Warn("a secret is too short to be redacted where it leaves", "secret", ref, "bytes", len(value), "least", MinRedacted)
	}
	r.file.redactor.Learn(map[Ref]string{from: value})
	return value, nil
}

// lookUp returns the value, and the reference with the owner of the value.
func (r *Resolver) lookUp(ctx context.Context, ref Ref, o *resolverState) (value string, from Ref, err error) {
	if ref.Scope == "" {
		value, err = lookUpVariable(ref, o)
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

func lookUpVariable(ref Ref, o *resolverState) (string, error) {
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

// fetch returns a value from its backend. Concurrent calls for the same value share one request.
func (r *Resolver) fetch(ctx context.Context, ref Ref, scope Scope, o *resolverState) (string, error) {
	if scope.Backend == nil {
		return r.file.Get(ctx, ref) // a change shows at once
	}
	r.mu.Lock()
	kept, ok := o.cache[ref]
	r.mu.Unlock()
	if ok && o.Now().Before(kept.expires) && !secretref.Fresh(ctx) {
		return kept.value, nil
	}
	flight := o.flights.DoChan(ref.key(), func() (any, error) {
		// The first caller may give up while others still wait.
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
			o.cache[ref] = cachedValue{value, o.Now().Add(o.TTL)}
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

// ExpandAll returns a copy of values in which every reference is replaced by its value, also
// within a text such as "Bearer secret://github/token". It is for the environment and headers of
// sources. Errors are those of Resolve.
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

package secretref

import "context"

// scope holds the values of a context that concern the resolution of secret references.
type scope struct {
	caller string
	fresh  bool
}

type scopeKey struct{}

func scopeOf(ctx context.Context) scope {
	s, _ := ctx.Value(scopeKey{}).(scope)
	return s
}

// WithCaller returns a context in which references are resolved on behalf of an identity,
// given by its key. Empty means the values that all callers share.
func WithCaller(ctx context.Context, identity string) context.Context {
	s := scopeOf(ctx)
	s.caller = identity
	return context.WithValue(ctx, scopeKey{}, s)
}

// Caller returns the identity of [WithCaller], or "" if there is none.
func Caller(ctx context.Context) string { return scopeOf(ctx).caller }

// WithFresh returns a context in which values are read from their stores, not from memory,
// because a service has just refused the remembered ones.
func WithFresh(ctx context.Context) context.Context {
	s := scopeOf(ctx)
	s.fresh = true
	return context.WithValue(ctx, scopeKey{}, s)
}

// Fresh reports whether ctx is from [WithFresh].
func Fresh(ctx context.Context) bool { return scopeOf(ctx).fresh }

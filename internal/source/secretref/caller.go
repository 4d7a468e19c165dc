package secretref

import "context"

type (
	callerKey struct{}
	freshKey  struct{}
)

// WithCaller says on whose behalf references are resolved from here on, by
// identity key. Empty is nobody in particular: values that all share.
func WithCaller(ctx context.Context, identity string) context.Context {
	return context.WithValue(ctx, callerKey{}, identity)
}

// Caller is the identity of [WithCaller], empty where there is none.
func Caller(ctx context.Context) string {
	identity, _ := ctx.Value(callerKey{}).(string)
	return identity
}

// WithFresh asks for values from where they are kept, not from memory: a
// service has just refused the remembered ones.
func WithFresh(ctx context.Context) context.Context {
	return context.WithValue(ctx, freshKey{}, true)
}

// Fresh reports whether ctx is from [WithFresh].
func Fresh(ctx context.Context) bool { return ctx.Value(freshKey{}) != nil }

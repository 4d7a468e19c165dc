package taint

import "context"

type sessionKey struct{}

// WithSession returns a context in which stored data is read for a caller's session, outside
// any call. Its labels taint that session.
func WithSession(ctx context.Context, session string) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

// SessionFrom returns the session of [WithSession], or "".
func SessionFrom(ctx context.Context) string {
	session, _ := ctx.Value(sessionKey{}).(string)
	return session
}

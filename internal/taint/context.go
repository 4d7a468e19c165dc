package taint

import "context"

type sessionKey struct{}

// InSession returns a context in which stored data is read for a caller's session, outside
// any call. Its labels taint that session.
func InSession(ctx context.Context, session string) context.Context {
	return context.WithValue(ctx, sessionKey{}, session)
}

// SessionOf returns the session of [InSession], or "".
func SessionOf(ctx context.Context) string {
	session, _ := ctx.Value(sessionKey{}).(string)
	return session
}

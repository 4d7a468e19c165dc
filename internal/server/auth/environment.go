package auth

import "context"

// EnvironmentHeader is the header in which a client chooses the environment whose released
// versions serve its calls.
const EnvironmentHeader = "Toolroom-Environment"

type environmentKey struct{}

// WithEnvironment returns a context of a request in an environment.
func WithEnvironment(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, environmentKey{}, name)
}

// Environment returns the environment of a request; empty means that it names none.
func Environment(ctx context.Context) string {
	name, _ := ctx.Value(environmentKey{}).(string)
	return name
}

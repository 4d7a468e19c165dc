package backend_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

func TestOnlyVariablesThatAreAllowedAreRead(t *testing.T) {
	t.Parallel()
	s := backend.NewEnviron(backend.EnvironOptions{
		Allow: []string{"GH_API_TOKEN", "EMPTY_X"},
		Lookup: func(name string) (string, bool) {
			return map[string]string{"GH_API_TOKEN": "value", "AWS_KEY": "other"}[name], true
		},
	})
	for _, c := range []struct {
		ref  secret.Ref
		want string
		code toolroom.Code
	}{
		{secret.Ref{Scope: "gh", Name: "api-token"}, "value", ""},
		{secret.Ref{Scope: "aws", Name: "key"}, "", toolroom.CodeDenied},
		{secret.Ref{Scope: "empty", Name: "x"}, "", toolroom.CodeNotFound},
		{secret.Ref{Scope: "gh", Name: "api-token", Owner: "ann"}, "", toolroom.CodeUnsupported},
	} {
		if got, err := s.Get(t.Context(), c.ref); got != c.want || toolroom.CodeOf(err) != c.code {
			t.Errorf("%+v: got %q, %v", c.ref, got, err)
		}
	}
}

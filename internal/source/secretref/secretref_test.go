package secretref_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

func resolve(_ context.Context, ref string) (string, error) {
	switch ref {
	case "secret://issues/token":
		return "t0ken", nil
	case "env://USER":
		return "alice", nil
	default:
		return "", errors.New("the vault said: hunter2")
	}
}

func TestExpandReplacesReferencesWhereverTheyAre(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"plain":                            "plain",
		"secret://issues/token":            "t0ken",
		"Bearer secret://issues/token":     "Bearer t0ken",
		"env://USER:secret://issues/token": "alice:t0ken",
		"https://example.com/secret":       "https://example.com/secret",
	} {
		got, err := secretref.New(resolve).Expand(t.Context(), value)
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestRedactHidesWhatWasGivenOut(t *testing.T) {
	t.Parallel()
	secrets := secretref.New(resolve)
	if _, err := secrets.Expand(t.Context(), "secret://issues/token"); err != nil {
		t.Fatal(err)
	}
	if got := secrets.Redact("bad token t0ken, t0ken!"); strings.Contains(got, "t0ken") {
		t.Errorf("the secret is still in %q", got)
	}
}

func TestAMissingSecretIsATypedErrorThatTellsNothing(t *testing.T) {
	t.Parallel()
	for name, resolver := range map[string]secretref.Resolver{"none": nil, "failing": resolve} {
		_, err := secretref.New(resolver).Expand(t.Context(), "x secret://no/such y")
		if toolroom.CodeOf(err) != toolroom.CodeExecutionFailed {
			t.Errorf("%s: got %v, want execution_failed", name, err)
		}
		if strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "secret://no/such") {
			t.Errorf("%s: message %q should name the reference and nothing else", name, err)
		}
	}
}

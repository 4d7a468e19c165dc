package backend_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

func TestWithoutAKeyringTheErrorSaysSo(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+t.TempDir()+"/none")
	if err := backend.ProbeKeyring(t.Context()); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("probe: %v", err)
	}
	_, err := (&backend.Keyring{}).Get(t.Context(), secret.Ref{Scope: "gh", Name: "token"})
	if e := toolroom.AsError(err); e.Code != toolroom.CodeUnsupported || e.Hint == "" {
		t.Errorf("got %v, hint %q", err, e.Hint)
	}
}

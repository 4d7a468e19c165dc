package session_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/session"
)

func TestADamagedSessionCanBeDeleted(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", "not a session", `{"format":"toolroom-session-1","bytes":99,"expires":"2100-01-01T00:00:00Z"}` + "\nshort"} {
		dir := t.TempDir()
		s := open(t, dir, session.Options{})
		if err := keep(t, s, "ann", "work", "x"); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", "work.session"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), "ann", "work"); err != nil {
			t.Errorf("%q: %v", damage, err)
		}
		wantCode(t, s.Delete(t.Context(), "ann", "work"), toolroom.CodeNotFound)
		if err := keep(t, s, "ann", "work", "y"); err != nil {
			t.Errorf("the name is not free: %v", err)
		}
	}
}

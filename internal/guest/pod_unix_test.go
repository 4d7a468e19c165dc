//go:build unix

package guest

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOnlyWhatTheNodeHasStartedIsAGuest(t *testing.T) {
	t.Parallel()
	proc := t.TempDir()
	stat := func(pid, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name, pid, text string
		want            int
	}{
		{"this process", "1", "1 (toolroom-guest) S 0 1 1 0", 0},
		{"a guest", "7", "7 (toolroom-guest) S 0 7 7 0", 1},
		{"a child of a guest", "8", "8 (python3) R 7 7 7 0", 1},
		{"a daemon of a program", "9", "9 (a) S 0 (b) S 1 9 9 0", 1},
		{"a guest that has ended", "7", "7 (toolroom-guest) Z 0 7 7 0", 0},
	} {
		stat(tt.pid, tt.text)
		if got := podGuests(proc); got != tt.want {
			t.Errorf("with %s there are %d guests, not %d", tt.name, got, tt.want)
		}
	}
}

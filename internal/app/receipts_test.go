package app_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// calls makes n calls in the room of a home, and closes it.
func calls(t *testing.T, home string, n int) {
	t.Helper()
	r, err := app.Open(t.Context(), app.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Register(r, "a:one", "For the test.", func(context.Context, struct{}) (int, error) { return 1, nil }); err != nil {
		t.Fatal(err)
	}
	for range n {
		if result := r.Run(t.Context(), toolroom.Call{Tool: "a:one"}); result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func verifyAt(t *testing.T, home string) (int64, error) {
	t.Helper()
	r, err := app.Open(t.Context(), app.Options{Home: home})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return r.VerifyReceipts(t.Context())
}

func TestAStoreThatHasVanishedOrGoneBackIsMissed(t *testing.T) {
	t.Parallel()
	files := []string{"toolroom.db", "toolroom.db-wal", "toolroom.db-shm"}
	remove := func(t *testing.T, home string) {
		for _, name := range files {
			if err := os.RemoveAll(filepath.Join(home, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, home, backup string)
		want   string
	}{
		"nothing":    {func(*testing.T, string, string) {}, ""},
		"it goes on": {func(t *testing.T, home, _ string) { calls(t, home, 3) }, ""},
		"gone":       {func(t *testing.T, home, _ string) { remove(t, home) }, "are missing"},
		"gone, and begun anew": {func(t *testing.T, home, _ string) {
			remove(t, home)
			calls(t, home, 3)
		}, "are missing"},
		"begun anew, and longer": {func(t *testing.T, home, _ string) {
			remove(t, home)
			calls(t, home, 12)
			calls(t, home, 2)
		}, "written anew"},
		"an older one": {func(t *testing.T, home, backup string) {
			remove(t, home)
			if err := os.CopyFS(home, os.DirFS(backup)); err != nil {
				t.Fatal(err)
			}
		}, "are missing"},
		"an older one, on purpose": {func(t *testing.T, home, backup string) {
			remove(t, home)
			if err := os.CopyFS(home, os.DirFS(backup)); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(home, "receipts.head")); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"a head that is none": {func(t *testing.T, home, _ string) {
			if err := os.WriteFile(filepath.Join(home, "receipts.head"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, backup := t.TempDir(), t.TempDir()
			calls(t, home, 3)
			for _, name := range files {
				copyFile(t, filepath.Join(home, name), filepath.Join(backup, name))
			}
			calls(t, home, 4)
			c.change(t, home, backup)
			n, err := verifyAt(t, home)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d receipts, %v", n, err)
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if os.IsNotExist(err) {
		return // it has been checkpointed
	}
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

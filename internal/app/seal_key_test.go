package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
)

func TestProcessesOnOneHomeHaveOneKey(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	keys := make([][]byte, 4)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			r, err := app.Open(t.Context(), app.Options{Home: home})
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			if keys[i], err = r.StateKey(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, key := range keys {
		if len(key) == 0 || !bytes.Equal(key, keys[0]) {
			t.Error("the keys differ")
		}
	}
	path := filepath.Join(home, "seal.key")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file is %v, %v", info, err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := app.Open(t.Context(), app.Options{Home: home}); err == nil {
		r.Close()
		t.Error("a broken key was taken")
	}
}

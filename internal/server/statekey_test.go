package server

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestProcessesOnOneHomeHaveOneKey(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	keys := make([][]byte, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := stateKey(home)
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for _, key := range keys {
		if !bytes.Equal(key, keys[0]) {
			t.Error("the keys differ")
		}
	}
	info, err := os.Stat(filepath.Join(home, "state.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key file is %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(filepath.Join(home, "state.key"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, err := stateKey(home); err != nil || bytes.Equal(key, keys[0]) || len(key) != len(keys[0]) {
		t.Errorf("a broken key gave %x, %v", key, err)
	}
}

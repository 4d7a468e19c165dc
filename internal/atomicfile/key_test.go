package atomicfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

func TestAKeyIsMadeOnceAndForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.key")
	keys := make([]string, 16)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := atomicfile.Key(path, func() []byte { return []byte(strings.Repeat("k", i+1)) })
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(key)
		})
	}
	wg.Wait()
	for _, key := range keys {
		if key != keys[0] || key == "" {
			t.Fatalf("the keys differ: %q", keys)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" {
		t.Errorf("its file is %v, %v", info.Mode(), err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("%d files were left, %v", len(files), err)
	}
}

func TestAKeyThatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	path := filepath.Join(t.TempDir(), "a.key")
	if err := os.WriteFile(path, []byte("k"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := atomicfile.Key(path, nil); err == nil || !strings.Contains(err.Error(), "0640") {
		t.Errorf("error %v", err)
	}
}

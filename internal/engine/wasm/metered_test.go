package wasm

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestAMeteredModuleIsMadeOnceForAFolder(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../quickjs/quickjs.wasm")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	made, err := loadMetered(module, folder)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("kept %q, %v", kept, err)
	}
	if got, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(got, made) || bytes.Equal(got, module) {
		t.Errorf("what is kept is not what was made, or the module itself; %v", err)
	}
	if err := os.WriteFile(kept[0], []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := loadMetered(module, folder); string(got) != "kept" || err != nil {
		t.Errorf("the second time it was made anew: %d bytes, %v", len(got), err)
	}
	if got, err := loadMetered(module, filepath.Join(folder, "missing")); !bytes.Equal(got, made) || err != nil {
		t.Errorf("where nothing can be kept: %d bytes, %v", len(got), err)
	}
}

package wasm

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
)

// small is a module that can be metered and compiled: a memory, a stack pointer and a
// function that does nothing.
var small = []byte("\x00asm\x01\x00\x00\x00" +
	"\x01\x04\x01\x60\x00\x00" + // a type
	"\x03\x02\x01\x00" + // a function of it
	"\x05\x03\x01\x00\x01" + // a memory
	"\x06\x06\x01\x7f\x01\x41\x00\x0b" + // the stack pointer
	"\x07\x13\x01\x0f__stack_pointer\x03\x00" +
	"\x0a\x04\x01\x02\x00\x0b")

type isolate struct{ *Instance }

func TestBrokenFilesOfACacheAreMadeAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(dir string) error {
		m, err := New(t.Context(), Engine[isolate]{
			Module: small, MaxMemory: 1 << 20, Tick: func(isolate) {},
			Offer: func(context.Context, wazero.Runtime) error { return nil },
			Open:  func(i *Instance) (isolate, error) { return isolate{i}, nil },
		}, dir)
		if err != nil {
			return err
		}
		return m.Close()
	}
	kept := func() []string {
		paths, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, path := range paths {
			below, err := filepath.Glob(filepath.Join(path, "*"))
			if err != nil {
				t.Fatal(err)
			}
			if len(below) == 0 {
				below = []string{path}
			}
			files = append(files, below...)
		}
		return files
	}
	if err := start(dir); err != nil {
		t.Fatal(err)
	}
	files := kept()
	if len(files) != 2 {
		t.Fatalf("the cache has %q", files)
	}
	for _, file := range files {
		whole, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{0, whole.Size() / 2} {
			if err := os.Truncate(file, size); err != nil {
				t.Fatal(err)
			}
			if err := start(dir); err != nil {
				t.Errorf("with %d bytes of %s: %v", size, filepath.Base(file), err)
			}
			if info, err := os.Stat(file); err != nil || info.Size() != whole.Size() {
				t.Errorf("%s is not made anew after it had %d bytes: %v, %v", filepath.Base(file), size, info, err)
			}
		}
	}
}

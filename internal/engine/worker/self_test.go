package worker

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestTheCacheIsFilledOncePerBinary(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the binary of this test is a script for /bin/sh")
	}
	folder := t.TempDir()
	binary, cache, filled := filepath.Join(folder, "binary"), filepath.Join(folder, "cache"), filepath.Join(folder, "filled")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho >>"+filled+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	start := func() int64 {
		t.Helper()
		s := NewSelf("wasm", []string{binary}, nil, cache) // as another process of the same machine
		if err := s.warmUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filled)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	if first, second := start(), start(); first != 1 || second != 1 {
		t.Errorf("the cache was filled %d times, then %d", first, second)
	}
	if err := os.Chtimes(binary, time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := start(); n != 2 {
		t.Errorf("for another binary the cache was filled %d times in all", n)
	}
}

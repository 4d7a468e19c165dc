package worker

import (
	"context"
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
	stamp := time.Now()
	as := func(n int) {
		t.Helper()
		if err := os.Chtimes(binary, time.Time{}, stamp.Add(time.Duration(n)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	as(1)
	if n := start(); n != 2 {
		t.Errorf("for another binary the cache was filled %d times in all", n)
	}
	as(2)
	start()
	as(1)
	if n := start(); n != 3 {
		t.Errorf("for binaries that take turns the cache was filled %d times in all", n)
	}
	for n := range maxStamps {
		as(10 + n)
		start()
	}
	as(1)
	if n := start(); n != 3+maxStamps+1 {
		t.Errorf("the cache was filled %d times in all; the oldest mark should be gone", n)
	}
	if got := len(readStamps(filepath.Join(cache, stampFile))); got != maxStamps {
		t.Errorf("%d binaries are marked", got)
	}
}

func TestACacheThatIsEmptiedIsFilledAgain(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the binary of this test is a script for /bin/sh")
	}
	folder := t.TempDir()
	binary, cache := filepath.Join(folder, "binary"), filepath.Join(folder, "cache")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\necho >"+filepath.Join(cache, "code")+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := NewSelf("wasm", []string{binary}, nil, cache)
	for range 2 {
		if err := s.warmUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(cache, "code")); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(cache); err != nil {
			t.Fatal(err)
		}
	}
}

func TestACallerWithoutTimeDoesNotStopTheCompilation(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("the binary of this test is a script for /bin/sh")
	}
	folder := t.TempDir()
	binary, cache, begun := filepath.Join(folder, "binary"), filepath.Join(folder, "cache"), filepath.Join(folder, "begun")
	// It ends once somebody has written to the pipe.
	script := "#!/bin/sh\nmkfifo " + begun + "\nread -r line <" + begun + "\necho >" + filepath.Join(cache, "code") + "\n"
	if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	s := NewSelf("wasm", []string{binary}, nil, cache)
	ctx, cancel := context.WithCancel(t.Context())
	filled := make(chan error, 1)
	go func() { filled <- s.warmUp(ctx) }()
	for { // until it waits
		if _, err := os.Stat(begun); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := os.WriteFile(begun, []byte("go\n"), 0o600); err != nil {
		t.Error(err)
	}
	if err := <-filled; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(cache, "code")); err != nil {
		t.Error(err)
	}
}

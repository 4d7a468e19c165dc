//go:build linux && (amd64 || arm64)

package escape

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"syscall"
	"unsafe"
)

// Main makes all attempts and prints the results as JSON. It returns the exit code.
func Main(args []string) int {
	var o Outside
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &o) != nil {
		return 2
	}
	if json.NewEncoder(os.Stdout).Encode(Try(o)) != nil {
		return 1
	}
	return 0
}

// Try makes all attempts. It returns, by name, the error of an attempt or [Succeeded].
func Try(o Outside) map[string]string {
	results := map[string]string{}
	for name, attempt := range attempts(o) {
		results[name] = Succeeded
		if err := attempt(); err != nil {
			results[name] = err.Error()
		}
	}
	return results
}

// attempts returns all attempts; each returns nil if it succeeded.
func attempts(o Outside) map[string]func() error {
	list := map[string]func() error{}
	for _, more := range []map[string]func() error{mounts(), files(o), devices(), races(o), processes(o), networks(o), kernels(), cgroups(), rights(o)} {
		maps.Copy(list, more)
	}
	return list
}

func try(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func str(s string) uintptr {
	b, _ := syscall.BytePtrFromString(s)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(b))
}

// kept keeps values alive whose addresses are used.
var kept []any

func write(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func create(path string) func() error {
	return func() error { return os.WriteFile(path, nil, 0o600) }
}

// read succeeds only if the file has content, because an empty file may hide it.
func read(path string) func() error {
	return func() error {
		text, err := os.ReadFile(path)
		if err == nil && len(text) == 0 {
			return errors.New("it is empty")
		}
		return err
	}
}

func list(path string) func() error {
	return func() error {
		entries, err := os.ReadDir(path)
		if err == nil && len(entries) == 0 {
			return errors.New("it is empty")
		}
		return err
	}
}

func see(path string) func() error {
	return func() error {
		_, err := os.Stat(path)
		return err
	}
}

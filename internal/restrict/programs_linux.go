package restrict

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
)

// programFolders contain the programs of most machines.
var programFolders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/snap/bin", "/opt/bin"}

// programTrees contain programs at any depth.
var programTrees = []string{"/usr/lib", "/usr/libexec", "/usr/local/lib", "/usr/local/libexec", "/opt"}

// multiCall are executables that contain many programs. They can run each of them, under any
// name.
var multiCall = []string{"busybox", "toybox", "coreutils"}

// addProgramRule adds a rule about programs: it hides every file that is such a program.
func (p *plan) addProgramRule(r toolroom.Effect) error {
	name, _, _ := strings.Cut(r.Target, " ")
	name = strings.TrimPrefix(name, "*/")
	found, err := programIndex.find(name, p.view.Path)
	if err != nil {
		return err
	}
	for _, path := range found {
		p.protect(path, hidden)
	}
	return nil
}

// programIndex caches the locations of programs for a while.
var programIndex = &index{known: map[string]location{}}

type index struct {
	mu    sync.Mutex
	known map[string]location
}

type location struct {
	paths []string
	at    time.Time
}

const (
	indexLifetime = time.Minute
	maxIndexed    = 1000
)

// find returns the files of the programs whose names match a pattern: also through links and under
// other names of the same file, and all multi-call programs of this machine.
func (x *index) find(name string, path []string) ([]string, error) {
	key := name + "\x00" + strings.Join(path, "\x00")
	x.mu.Lock()
	defer x.mu.Unlock()
	if l, ok := x.known[key]; ok && time.Since(l.at) < indexLifetime {
		return l.paths, nil
	}
	paths, err := findPrograms(name, path)
	if err != nil {
		return nil, err
	}
	if len(x.known) >= maxIndexed {
		clear(x.known)
	}
	x.known[key] = location{paths, time.Now()}
	return paths, nil
}

func findPrograms(name string, path []string) ([]string, error) {
	var found []string
	add := func(path string) error {
		real, err := filepath.EvalSymlinks(path)
		if err != nil || slices.Contains(found, real) {
			return nil //nolint:nilerr // a broken link cannot be started
		}
		info, err := os.Stat(real)
		if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			return nil //nolint:nilerr // it cannot be started
		}
		if base := filepath.Base(real); slices.Contains(multiCall, base) && !slices.Contains(multiCall, filepath.Base(path)) {
			return fmt.Errorf("%s is a part of %s, which many programs are", path, real)
		}
		found = append(found, real)
		return nil
	}
	if strings.HasPrefix(name, "/") {
		err := findByPath(name, add)
		return found, err
	}
	var dirs []string
	for _, dir := range slices.Concat(path, programFolders) {
		if real, err := filepath.EvalSymlinks(dir); err == nil && !slices.Contains(dirs, real) {
			dirs = append(dirs, real)
		}
	}
	var all []string // the entries of dirs
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	for _, path := range all {
		if base := filepath.Base(path); Glob(name, base) || slices.Contains(multiCall, base) {
			if err := add(path); err != nil {
				return nil, err
			}
		}
	}
	for _, tree := range programTrees {
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !Glob(name, d.Name()) {
				return nil //nolint:nilerr // what cannot be listed cannot be started either
			}
			return add(path)
		})
		if err != nil {
			return nil, err
		}
	}
	// Find hard links to the same files.
	for _, one := range slices.Clone(found) {
		info, err := os.Stat(one)
		if err != nil {
			continue
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); !ok || sys.Nlink < 2 {
			continue
		}
		for _, path := range all {
			if other, err := os.Lstat(path); err == nil && os.SameFile(info, other) {
				if err := add(path); err != nil {
					return nil, err
				}
			}
		}
	}
	return found, nil
}

// findByPath calls add for the files whose absolute paths match pattern, in which * matches any
// text.
func findByPath(pattern string, add func(string) error) error {
	literal, _, wild := strings.Cut(pattern, "*")
	if !wild {
		return add(pattern)
	}
	left := maxWalked
	return filepath.WalkDir(literal[:strings.LastIndexByte(literal, '/')+1], func(path string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fmt.Errorf("more than %d files would have to be looked at", maxWalked)
		}
		if err != nil || d.IsDir() || !Glob(pattern, path) {
			return nil //nolint:nilerr // what cannot be listed cannot be started either
		}
		return add(path)
	})
}

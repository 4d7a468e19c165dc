package restrict

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// View describes the files that a program sees.
type View struct {
	// Shown are the parts of this machine that a sandbox shows under their own paths. Nil means
	// the whole machine, writable.
	Shown []lockdown.Bind
	// Hidden are paths below Shown that other mounts already cover.
	Hidden []string
	// Path are folders in which programs are looked up, in addition to programFolders.
	Path []string
	// Scratch is an existing folder of the server, for the placeholders of files and folders that
	// a program must not see.
	Scratch string
}

// Limits of a plan.
const (
	maxEntries = 500     // of a folder in which nothing new may be made
	maxBinds   = 1500    // of a plan
	maxWalked  = 300_000 // files and folders that are examined for one rule
)

// Plan returns the mounts that enforce the rules about files and programs, in the order in
// which they must be made. It ignores all other rules. The error names the rule that cannot be
// enforced on this machine.
func Plan(rules []toolroom.Effect, v View) ([]lockdown.Bind, error) {
	p := &plan{view: v, protections: map[string]protection{}, folders: map[string]*listing{}}
	for _, r := range rules {
		var err error
		switch r.Kind {
		case toolroom.EffectFile:
			err = p.addFileRule(r)
		case toolroom.EffectCommand:
			err = p.addProgramRule(r)
		}
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the policy's rule about %s cannot be enforced here: %w", r, err).
				WithCLIHint("see the rules: toolroom policy show")
		}
	}
	if len(p.protections) == 0 {
		return nil, nil
	}
	if v.Shown == nil && os.Geteuid() == 0 {
		p.protectFromRoot()
	}
	return p.binds()
}

// protection is how a path is protected by a mount. The highest that applies is used.
type protection int

const (
	pinned   protection = iota + 1 // mounted over itself, so that it cannot be renamed or removed
	frozen                         // read-only, with its entries pinned
	readOnly                       // read-only with everything below it
	hidden                         // replaced by a placeholder, with everything below it
)

type plan struct {
	view        View
	protections map[string]protection
	folders     map[string]*listing
}

func (p *plan) protect(path string, h protection) { p.protections[path] = max(p.protections[path], h) }

// maxLinks is how many links a path may contain, as on Linux.
const maxLinks = 40

// freezeLinks makes sure that path cannot be changed to lead to another file: it freezes the
// folder of every link in it, and the folder in which the missing rest of the path would be made.
func (p *plan) freezeLinks(path string) error {
	at, rest, links := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			return p.freeze(at)
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return nil // it leads to no file, and none of its links can be replaced
		}
		to, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if err := p.freeze(at); err != nil {
			return err
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return nil
}

// freeze makes sure that no entries can be added to a folder, and that its entries cannot be
// replaced. The entries stay as writable as they are.
func (p *plan) freeze(dir string) error {
	if base, shown := p.baseMount(dir); !shown || !base.Writable || within(dir, "/proc") || unix.Access(dir, unix.W_OK) != nil {
		return nil // nothing can be made there
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > maxEntries {
		return fmt.Errorf("%s has %d entries, and %d is the most of a folder in which nothing new may be made", dir, len(entries), maxEntries)
	}
	p.protect(dir, frozen)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			p.protect(filepath.Join(dir, e.Name()), pinned)
		}
	}
	return nil
}

// protectFromRoot makes sure that root, which can use devices and kernel settings, cannot bypass
// the mounts.
func (p *plan) protectFromRoot() {
	p.protect("/proc", readOnly)
	p.protect("/sys", readOnly)
	_ = filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be listed cannot be used either
		}
		name := d.Name()
		block := d.Type()&fs.ModeDevice != 0 && d.Type()&fs.ModeCharDevice == 0
		if block || slices.Contains([]string{"mem", "kmem", "port"}, name) || d.Type()&fs.ModeCharDevice != 0 && strings.HasPrefix(name, "sg") {
			p.protect(path, hidden)
		}
		return nil
	})
}

// baseMount returns the mount that shows a path without the plan, and whether there is one.
func (p *plan) baseMount(path string) (lockdown.Bind, bool) {
	if p.view.Shown == nil {
		return lockdown.Bind{Source: "/", Writable: true}, true
	}
	var found lockdown.Bind
	for _, b := range p.view.Shown {
		if within(path, b.Source) && len(b.Source) >= len(found.Source) {
			found = b
		}
	}
	return found, found.Source != "" && !slices.ContainsFunc(p.view.Hidden, func(h string) bool { return within(path, h) })
}

func within(path, dir string) bool {
	below, ok := strings.CutPrefix(path, dir)
	return ok && (below == "" || below[0] == '/' || dir == "/")
}

// binds returns the mounts, outer folders first.
func (p *plan) binds() ([]lockdown.Bind, error) {
	p.mapToShown()
	for path, h := range maps.Clone(p.protections) {
		if h == pinned && p.view.Shown == nil && path == "/proc" {
			continue
		}
		p.pinParents(path)
	}
	p.repeatViewMounts()
	paths := slices.SortedFunc(maps.Keys(p.protections), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	var binds []lockdown.Bind
	for _, path := range paths {
		h := p.protections[path]
		if p.isCovered(path) {
			continue
		}
		base, _ := p.baseMount(path)
		b := lockdown.Bind{Source: path, Target: path, Writable: h == pinned && base.Writable}
		if h == hidden {
			source, err := p.placeholder(path)
			if err != nil {
				return nil, err
			}
			b.Source = source
		}
		binds = append(binds, b)
	}
	if len(binds) > maxBinds {
		return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the policy's rules about files need %d mounts, and %d is the most", len(binds), maxBinds).
			WithHint("name folders (/srv/keys/**) instead of single files")
	}
	return binds, nil
}

// mapToShown replaces every path that the sandbox does not show by the shown paths below it, if
// there are any.
func (p *plan) mapToShown() {
	if p.view.Shown == nil {
		return
	}
	for path, h := range maps.Clone(p.protections) {
		if _, shown := p.baseMount(path); shown {
			continue
		}
		delete(p.protections, path)
		if h < readOnly {
			continue
		}
		for _, b := range p.view.Shown {
			if within(b.Source, path) {
				p.protect(b.Source, h)
			}
		}
	}
}

// pinParents pins the folders above a path, so that none of them can be replaced.
func (p *plan) pinParents(path string) {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		base, shown := p.baseMount(dir)
		if !shown || dir == base.Source {
			return
		}
		if base.Writable && unix.Access(filepath.Dir(dir), unix.W_OK) == nil {
			p.protect(dir, pinned)
		}
	}
}

// repeatViewMounts repeats the mounts of the view that mounts of the plan would cover: a folder
// that is mounted over itself shows the machine's files, not the mounts that the view has in it.
func (p *plan) repeatViewMounts() {
	undone := func(path string) bool {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			if p.protections[dir] != 0 {
				return true
			}
		}
		return false
	}
	for _, b := range p.view.Shown {
		if undone(b.Source) {
			p.protect(b.Source, pinned)
		}
	}
	for _, path := range p.view.Hidden {
		if undone(path) {
			p.protect(path, hidden)
		}
	}
}

// isCovered reports whether a folder above path is hidden or read-only with everything below it,
// so that path needs no mount. A hidden path in a read-only folder does need one.
func (p *plan) isCovered(path string) bool {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if h := p.protections[dir]; h == hidden || h == readOnly && p.protections[path] != hidden {
			return true
		}
	}
	return false
}

// placeholder returns a file or folder without permissions, to be mounted in place of path.
func (p *plan) placeholder(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		dir := filepath.Join(p.view.Scratch, "denied.d")
		err := os.Mkdir(dir, 0)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return dir, err
	}
	file := filepath.Join(p.view.Scratch, "denied")
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrExist) {
		return file, nil
	}
	if err != nil {
		return "", err
	}
	return file, f.Close()
}

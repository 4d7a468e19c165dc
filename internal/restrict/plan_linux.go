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
	// Shown are the parts of this machine that a sandbox shows under their own paths; nil
	// means the whole machine, writable.
	Shown []lockdown.Bind
	// Hidden are paths below Shown that something else covers already.
	Hidden []string
	// Path are the folders in which programs are looked up, besides the usual ones.
	Path []string
	// Scratch is an existing folder of the server, for what stands in place of a file or
	// folder that a program must not see.
	Scratch string
}

// Limits of a plan.
const (
	maxEntries = 500     // of a folder in which nothing new may be made
	maxBinds   = 1500    // of a plan
	maxWalked  = 300_000 // files and folders that are looked at for one rule
)

// Plan returns the mounts that enforce the rules about files and programs, in the order in
// which they must be made. All other rules are ignored. An error says which rule cannot be
// enforced on this machine.
func Plan(rules []toolroom.Effect, v View) ([]lockdown.Bind, error) {
	p := &plan{view: v, how: map[string]how{}, folders: map[string]*listing{}}
	for _, r := range rules {
		var err error
		switch r.Kind {
		case toolroom.EffectFile:
			err = p.file(r)
		case toolroom.EffectCommand:
			err = p.program(r)
		}
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the policy's rule about %s cannot be enforced here: %w", r, err).
				WithCLIHint("see the rules: toolroom policy show")
		}
	}
	if len(p.how) == 0 {
		return nil, nil
	}
	if v.Shown == nil && os.Geteuid() == 0 {
		p.guardRoot()
	}
	return p.binds()
}

// how says how a path is mounted over itself, or over nothing; a higher one wins.
type how int

const (
	pinned   how = iota + 1 // as it is, which keeps it from being renamed or removed
	frozen                  // itself read-only, its entries are pinned
	readOnly                // with all below it
	hidden                  // with all below it
)

type plan struct {
	view    View
	how     map[string]how
	folders map[string]*listing
}

func (p *plan) set(path string, h how) { p.how[path] = max(p.how[path], h) }

// maxLinks is how many links a path may lead through, as on Linux.
const maxLinks = 40

// freezeLinks keeps a path from being made to lead elsewhere: it freezes the folder of every
// link on its way, and the one in which the rest of the path would be made.
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
			return nil // it leads nowhere, and none of its links can be replaced
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

// freeze keeps new entries from being made in a folder, and its entries from being
// replaced. What is in it stays as writable as it is.
func (p *plan) freeze(dir string) error {
	if base, shown := p.base(dir); !shown || !base.Writable || within(dir, "/proc") || unix.Access(dir, unix.W_OK) != nil {
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
	p.set(dir, frozen)
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink == 0 {
			p.set(filepath.Join(dir, e.Name()), pinned)
		}
	}
	return nil
}

// guardRoot keeps root, which may use the machine's devices and settings, from passing by
// the mounts.
func (p *plan) guardRoot() {
	p.set("/proc", readOnly)
	p.set("/sys", readOnly)
	_ = filepath.WalkDir("/dev", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what cannot be listed cannot be used either
		}
		name := d.Name()
		block := d.Type()&fs.ModeDevice != 0 && d.Type()&fs.ModeCharDevice == 0
		if block || slices.Contains([]string{"mem", "kmem", "port"}, name) || d.Type()&fs.ModeCharDevice != 0 && strings.HasPrefix(name, "sg") {
			p.set(path, hidden)
		}
		return nil
	})
}

// base returns the mount that shows a path before the plan changes anything.
func (p *plan) base(path string) (lockdown.Bind, bool) {
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

// binds returns the mounts, those of outer folders first.
func (p *plan) binds() ([]lockdown.Bind, error) {
	p.show()
	for path, h := range maps.Clone(p.how) {
		if h == pinned && p.view.Shown == nil && path == "/proc" {
			continue
		}
		p.pinAbove(path)
	}
	p.keepView()
	paths := slices.SortedFunc(maps.Keys(p.how), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	})
	var binds []lockdown.Bind
	for _, path := range paths {
		h := p.how[path]
		if p.covered(path) {
			continue
		}
		base, _ := p.base(path)
		b := lockdown.Bind{Source: path, Target: path, Writable: h == pinned && base.Writable}
		if h == hidden {
			source, err := p.empty(path)
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

// show replaces paths that a sandbox does not show: by the shown paths below them, or by
// none.
func (p *plan) show() {
	if p.view.Shown == nil {
		return
	}
	for path, h := range maps.Clone(p.how) {
		if _, shown := p.base(path); shown {
			continue
		}
		delete(p.how, path)
		if h < readOnly {
			continue
		}
		for _, b := range p.view.Shown {
			if within(b.Source, path) {
				p.set(b.Source, h)
			}
		}
	}
}

// pinAbove pins the folders around a path, so that none of them can be replaced by another.
func (p *plan) pinAbove(path string) {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		base, shown := p.base(dir)
		if !shown || dir == base.Source {
			return
		}
		if base.Writable && unix.Access(filepath.Dir(dir), unix.W_OK) == nil {
			p.set(dir, pinned)
		}
	}
}

// keepView repeats those mounts of the view that mounts of the plan would cover: a folder that
// is mounted again shows what the machine has there, not what the view has mounted inside.
func (p *plan) keepView() {
	undone := func(path string) bool {
		for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
			if p.how[dir] != 0 {
				return true
			}
		}
		return false
	}
	for _, b := range p.view.Shown {
		if undone(b.Source) {
			p.set(b.Source, pinned)
		}
	}
	for _, path := range p.view.Hidden {
		if undone(path) {
			p.set(path, hidden)
		}
	}
}

// covered reports whether a folder around a path is hidden or read-only with all below it,
// so that the path needs no mount of its own. A hidden path in a read-only folder does.
func (p *plan) covered(path string) bool {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if h := p.how[dir]; h == hidden || h == readOnly && p.how[path] != hidden {
			return true
		}
	}
	return false
}

// empty returns what stands in place of a path: a file or folder that nobody may use.
func (p *plan) empty(path string) (string, error) {
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

package restrict

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// walk finds the files and folders that a rule is about, through links, and plans how each
// is kept.
type walk struct {
	*plan
	rule toolroom.Effect
	how  how
	// closes keeps new files and folders that the rule would be about from being made.
	closes bool
	left   int
	seen   map[place]bool
}

// place is a folder with the rest of the pattern, by its number of segments.
type place struct {
	dir  string
	rest int
}

// file plans a rule about files.
func (p *plan) file(r toolroom.Effect) error {
	f := formOf(r.Target)
	if !f.ok {
		return nil
	}
	w := &walk{plan: p, rule: r, how: hidden, left: maxWalked, seen: map[place]bool{}}
	switch r.Mode {
	case "write":
		w.how, w.closes = readOnly, true
	case "delete":
		w.how = pinned
	case "":
		// With ** inside, every folder would have to be closed to new entries. What a program
		// makes itself tells it nothing, so only what exists is kept.
		w.closes = !f.deep
	}
	return w.at("/", f.segments)
}

// at follows the rest of a pattern from a folder, which is no link.
func (w *walk) at(dir string, rest []string) error {
	here := place{dir, len(rest)}
	if w.seen[here] || !w.visible(dir) {
		return nil
	}
	w.seen[here] = true
	if len(rest) == 0 || len(rest) == 1 && rest[0] == "**" {
		return w.keep(dir, len(rest) == 1)
	}
	segment, deep := rest[0], rest[0] == "**"
	if !strings.Contains(segment, "*") {
		return w.into(dir, segment, rest[1:])
	}
	listed, err := w.read(dir)
	if err != nil {
		return unreachable(err)
	}
	if w.left < 0 {
		return fmt.Errorf("more than %d files would have to be looked at", maxWalked)
	}
	if deep && !(w.how == hidden && listed.lacks(rest[1])) {
		if err := w.at(dir, rest[1:]); err != nil {
			return err
		}
	}
	for _, e := range listed.entries {
		switch {
		case deep && (!e.kind.IsDir() && e.kind != fs.ModeSymlink || dir == "/" && ofTheKernel(e.name)):
		case deep && e.kind == fs.ModeSymlink && w.how == hidden && leadsToFile(join(dir, e.name)):
		case deep && e.kind.IsDir() && !w.closes:
			err = w.at(join(dir, e.name), rest)
		case deep:
			err = w.into(dir, e.name, rest)
		case Glob(segment, e.name):
			err = w.into(dir, e.name, rest[1:])
		}
		if err != nil {
			return err
		}
	}
	if w.closes {
		return w.freeze(dir)
	}
	return nil
}

// listing is a folder that was read for a plan.
type listing struct {
	*folder
	last *walk // that has counted its entries
}

// read returns what is in a folder, the same for all rules of the plan. Each rule counts an
// entry once.
func (w *walk) read(dir string) (*folder, error) {
	l := w.folders[dir]
	if l == nil {
		f, err := remembered.read(dir)
		if err != nil {
			return nil, err
		}
		l = &listing{folder: f}
		w.folders[dir] = l
	}
	if l.last != w {
		l.last = w
		w.left -= len(l.entries)
	}
	return l.folder, nil
}

// leadsToFile reports whether a link leads to something that exists and is no folder.
func leadsToFile(link string) bool {
	var s unix.Stat_t
	return unix.Stat(link, &s) == nil && s.Mode&unix.S_IFMT != unix.S_IFDIR
}

// ofTheKernel reports whether a folder of the root has files that the kernel makes up.
func ofTheKernel(name string) bool { return slices.Contains([]string{"proc", "sys", "dev"}, name) }

// join is filepath.Join for a path and a name that the kernel has given.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// into follows a pattern into an entry of a folder, which need not exist.
func (w *walk) into(dir, name string, rest []string) error {
	path := join(dir, name)
	info, err := os.Lstat(path)
	if w.closes {
		if err := w.freezeLinks(path); err != nil {
			return err
		}
	} else if w.how == pinned && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := w.freeze(dir); err != nil { // nothing can be mounted over a link
			return err
		}
	}
	if err != nil {
		return unreachable(err)
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if link {
		if info, err = os.Stat(path); err != nil {
			return unreachable(err)
		}
	}
	if len(rest) > 0 && !info.IsDir() {
		return nil
	}
	if link {
		// The folder is no link, so that only a link here has another real path.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return w.at(path, rest)
}

// unreachable returns nil for errors of paths that no program of this user can reach.
func unreachable(err error) error {
	for _, none := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// keep plans what happens to a path that the rule is about. All below it is kept too; to keep
// that from being removed, each of it must be.
func (w *walk) keep(path string, below bool) error {
	if base, _ := w.base(path); w.how == pinned && !base.Writable {
		return nil
	}
	w.set(path, w.how)
	if w.how != pinned || !below {
		return nil
	}
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreachable(err)
		case unix.Access(filepath.Dir(path), unix.W_OK) != nil:
			return nil // nothing can be removed from there
		case d.Type()&fs.ModeSymlink != 0:
			return w.freeze(filepath.Dir(path))
		case len(w.plan.how) > maxBinds:
			return fmt.Errorf("%s has more than %d files and folders to keep from being deleted", w.rule.Target, maxBinds)
		}
		w.set(path, pinned)
		return nil
	})
}

// visible reports whether programs see a folder, or something in it.
func (w *walk) visible(dir string) bool {
	if w.view.Shown == nil {
		return true
	}
	return slices.ContainsFunc(w.view.Shown, func(b lockdown.Bind) bool { return within(dir, b.Source) || within(b.Source, dir) })
}

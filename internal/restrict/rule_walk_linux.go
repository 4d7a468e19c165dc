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

// ruleWalk finds the files and folders that a rule matches, also through links, and adds their
// protection to the plan.
type ruleWalk struct {
	*plan
	rule       toolroom.Effect
	protection protection
	// preventsNew means that no new files and folders that the rule matches can be made.
	preventsNew bool
	left        int
	seen        map[visit]bool
}

// visit is a folder in which the last rest segments of the pattern were followed.
type visit struct {
	dir  string
	rest int
}

// addFileRule adds a rule about files to the plan.
func (p *plan) addFileRule(r toolroom.Effect) error {
	f := parsePathPattern(r.Target)
	if !f.ok {
		return nil
	}
	w := &ruleWalk{plan: p, rule: r, protection: hidden, left: maxWalked, seen: map[visit]bool{}}
	switch r.Mode {
	case "write":
		w.protection, w.preventsNew = readOnly, true
	case "delete":
		w.protection = pinned
	case "":
		// With ** inside, every folder would have to be frozen. A file that the program itself
		// makes tells it nothing new, so only existing files are protected.
		w.preventsNew = !f.deep
	}
	return w.follow("/", f.segments)
}

// follow follows the rest of a pattern from dir, which is not a link.
func (w *ruleWalk) follow(dir string, rest []string) error {
	here := visit{dir, len(rest)}
	if w.seen[here] || !w.visible(dir) {
		return nil
	}
	w.seen[here] = true
	if len(rest) == 0 || len(rest) == 1 && rest[0] == "**" {
		return w.protectMatch(dir, len(rest) == 1)
	}
	segment, deep := rest[0], rest[0] == "**"
	if !strings.Contains(segment, "*") {
		return w.enter(dir, segment, rest[1:])
	}
	listed, err := w.read(dir)
	if err != nil {
		return ignoreUnreachable(err)
	}
	if w.left < 0 {
		return fmt.Errorf("more than %d files would have to be looked at", maxWalked)
	}
	if deep && !(w.protection == hidden && listed.lacks(rest[1])) {
		if err := w.follow(dir, rest[1:]); err != nil {
			return err
		}
	}
	for _, e := range listed.entries {
		switch {
		case deep && (!e.kind.IsDir() && e.kind != fs.ModeSymlink || dir == "/" && isKernelFolder(e.name)):
		case deep && e.kind == fs.ModeSymlink && w.protection == hidden && leadsToFile(join(dir, e.name)):
		case deep && e.kind.IsDir() && !w.preventsNew:
			err = w.follow(join(dir, e.name), rest)
		case deep:
			err = w.enter(dir, e.name, rest)
		case Glob(segment, e.name):
			err = w.enter(dir, e.name, rest[1:])
		}
		if err != nil {
			return err
		}
	}
	if w.preventsNew {
		return w.freeze(dir)
	}
	return nil
}

// listing is a folder that was read for a plan.
type listing struct {
	*folder
	last *ruleWalk // the last walk that has counted its entries
}

// read returns the entries of a folder. They are the same for all rules of the plan, and each
// rule counts them once.
func (w *ruleWalk) read(dir string) (*folder, error) {
	l := w.folders[dir]
	if l == nil {
		f, err := folderReads.read(dir)
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

// leadsToFile reports whether a link leads to something that exists and is not a folder.
func leadsToFile(link string) bool {
	var s unix.Stat_t
	return unix.Stat(link, &s) == nil && s.Mode&unix.S_IFMT != unix.S_IFDIR
}

// isKernelFolder reports whether the kernel generates the files in a folder of the root.
func isKernelFolder(name string) bool { return slices.Contains([]string{"proc", "sys", "dev"}, name) }

// join is filepath.Join for a clean path and the name of an entry.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// enter follows a pattern to an entry of a folder. The entry need not exist.
func (w *ruleWalk) enter(dir, name string, rest []string) error {
	path := join(dir, name)
	info, err := os.Lstat(path)
	if w.preventsNew {
		if err := w.freezeLinks(path); err != nil {
			return err
		}
	} else if w.protection == pinned && err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err := w.freeze(dir); err != nil { // nothing can be mounted over a link
			return err
		}
	}
	if err != nil {
		return ignoreUnreachable(err)
	}
	link := info.Mode()&fs.ModeSymlink != 0
	if link {
		if info, err = os.Stat(path); err != nil {
			return ignoreUnreachable(err)
		}
	}
	if len(rest) > 0 && !info.IsDir() {
		return nil
	}
	if link {
		// dir is not a link, so only a link here has another real path.
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return w.follow(path, rest)
}

// ignoreUnreachable returns nil if err means that no program of this user can reach the path,
// and err otherwise.
func ignoreUnreachable(err error) error {
	for _, none := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.ELOOP} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// protectMatch protects a path that the rule matches, with everything below it. To prevent that
// something below it is removed, every path there must be pinned.
func (w *ruleWalk) protectMatch(path string, below bool) error {
	if base, _ := w.baseMount(path); w.protection == pinned && !base.Writable {
		return nil
	}
	w.protect(path, w.protection)
	if w.protection != pinned || !below {
		return nil
	}
	return filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return ignoreUnreachable(err)
		case unix.Access(filepath.Dir(path), unix.W_OK) != nil:
			return nil // nothing can be removed from there
		case d.Type()&fs.ModeSymlink != 0:
			return w.freeze(filepath.Dir(path))
		case len(w.plan.protections) > maxBinds:
			return fmt.Errorf("%s has more than %d files and folders to keep from being deleted", w.rule.Target, maxBinds)
		}
		w.protect(path, pinned)
		return nil
	})
}

// visible reports whether the sandbox shows a folder or something in it.
func (w *ruleWalk) visible(dir string) bool {
	if w.view.Shown == nil {
		return true
	}
	return slices.ContainsFunc(w.view.Shown, func(b lockdown.Bind) bool { return within(dir, b.Source) || within(b.Source, dir) })
}

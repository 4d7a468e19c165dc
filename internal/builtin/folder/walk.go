package folder

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/toolroom/toolroom"
)

// WalkOptions select the files of a walk.
type WalkOptions struct {
	// Recursive includes the folders below.
	Recursive bool
	// Pattern is a glob such as *.go or src/**/*.ts; empty selects all. A pattern without a
	// slash is compared with names, any other with paths below the folder.
	Pattern string
	// All includes ignored files and the folder .git.
	All bool
}

// Entry is one file or folder of a walk.
type Entry struct {
	// Path is relative to the folder of the walk, with slashes.
	Path string
	Type fs.FileMode
	tree *Tree
	dir  fs.DirEntry
}

// Info returns the size and time of the entry.
func (e Entry) Info() (fs.FileInfo, error) {
	if e.tree.self == nil {
		return e.dir.Info() // as it was when the folder was read
	}
	f, err := e.tree.beneath(e.Path, pathOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// Tree is an opened folder. It must be closed.
type Tree struct {
	*os.Root
	self    *os.File // the folder, if openBeneath works in it; else nil
	folders *Folders
	real    string
	shown   string
}

// OpenTree opens a folder for [Tree.Walk] and [Tree.Opener].
func (f *Folders) OpenTree(name string) (*Tree, error) {
	dir, rel, err := f.locate(name)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, f.explainError(name, err)
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if err != nil {
		return nil, f.explainError(name, err)
	}
	if !info.IsDir() {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is not a folder", name).WithHint("read it: file:read path=%q", name)
	}
	sub, err := root.OpenRoot(rel)
	if err != nil {
		return nil, f.explainError(name, err)
	}
	p := &place{Root: sub}
	real, err := p.path(filepath.Join(dir, rel))
	if err == nil {
		err = f.checkPath(name, real, modeRead)
	}
	if err != nil {
		sub.Close()
		return nil, f.explainError(name, err)
	}
	t := &Tree{sub, nil, f, real, name}
	if self, err := sub.Open("."); err == nil {
		if t.self, err = openBeneath(self, ".", real, nonBlocking); err != nil {
			t.self = nil
		}
		self.Close()
	}
	return t, nil
}

// Close closes the folder.
func (t *Tree) Close() error {
	if t.self != nil {
		t.self.Close()
	}
	return t.Root.Close()
}

// CheckUnmoved returns an error if the folder has been moved since it was opened. Rules were
// checked for its earlier path, so they may forbid what is in it now.
func (t *Tree) CheckUnmoved() error {
	p := &place{Root: t.Root}
	if real, err := p.path(t.real); err != nil || real != t.real {
		return toolroom.Errorf(toolroom.CodeConflict, "%s has been moved by another program meanwhile", t.shown)
	}
	return nil
}

// beneath opens the file at name if no part of name is a link. The name of the returned file is
// its real path.
func (t *Tree) beneath(name string, flags uint64) (*os.File, error) {
	return openBeneath(t.self, name, filepath.Join(t.real, name), flags)
}

// folder opens a folder of the tree, if no part of its path is a link.
func (t *Tree) folder(name string) (*os.File, error) {
	if t.self != nil {
		return t.beneath(name, nonBlocking)
	}
	expected := filepath.Join(t.real, filepath.FromSlash(name))
	f, err := t.OpenFile(filepath.FromSlash(name), os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	if real, err := pathOf(f, expected); err != nil || real != expected {
		f.Close()
		return nil, fs.ErrNotExist
	}
	return f, nil
}

// An Opener opens files of a tree one after another. It keeps the folder of the last file open,
// because reopening the folders takes longer than reading a small file. It must be closed.
type Opener struct {
	tree *Tree
	root *os.Root
	dir  string // of root, relative to the tree
}

// Opener returns an Opener, for one goroutine.
func (t *Tree) Opener() *Opener { return &Opener{tree: t} }

// Open opens a regular file that a walk of the tree has visited.
func (o *Opener) Open(name string) (*File, error) {
	dir, base := path.Split(name)
	shown := path.Join(filepath.ToSlash(o.tree.shown), name)
	if o.tree.self != nil {
		opened, err := o.tree.beneath(name, nonBlocking)
		if err != nil {
			return nil, o.tree.folders.explainError(shown, err)
		}
		return o.tree.folders.checkOpened(opened, opened.Name(), shown)
	}
	if o.root == nil || dir != o.dir {
		o.Close()
		root, err := o.tree.OpenRoot(filepath.FromSlash(path.Clean(dir)))
		if err != nil {
			return nil, o.tree.folders.explainError(shown, err)
		}
		o.root, o.dir = root, dir
	}
	return o.tree.folders.openRegular(o.root, filepath.Join(o.tree.real, filepath.FromSlash(dir)), base, shown)
}

// Close closes the folder of the last file.
func (o *Opener) Close() {
	if o.root != nil {
		o.root.Close()
		o.root = nil
	}
}

// Real returns the path of the tree without links.
func (t *Tree) Real() string { return t.real }

// Walk calls visit for each selected entry, in the order of names. Links are entries and are
// not followed. If visit returns false, the walk ends.
func (t *Tree) Walk(ctx context.Context, o WalkOptions, visit func(Entry) bool) error {
	if o.Pattern != "" && !doublestar.ValidatePattern(o.Pattern) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a glob pattern", o.Pattern).
			WithHint("write it like *.go, src/**/*.ts or {a,b}.txt")
	}
	w := &walk{ctx: ctx, tree: t, o: o, visit: visit}
	var rules []ignoreRules
	if !o.All {
		rules = t.rulesAbove()
	}
	_, err := w.folder(".", rules)
	return t.folders.explainError(t.shown, err)
}

type walk struct {
	ctx   context.Context
	tree  *Tree
	o     WalkOptions
	visit func(Entry) bool
}

// folder visits the entries of one folder and reports whether the walk goes on.
func (w *walk) folder(dir string, above []ignoreRules) (bool, error) {
	if err := w.ctx.Err(); err != nil {
		return false, err
	}
	var entries []fs.DirEntry
	f, err := w.tree.folder(dir)
	if err == nil {
		entries, err = f.ReadDir(-1)
		f.Close()
	}
	switch {
	case err == nil || len(entries) > 0:
	case dir == ".":
		return false, err
	default:
		return true, nil // removed or unreadable by now
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	rules := above
	if !w.o.All {
		if own := w.tree.readRules(dir, entries); len(own.lines) > 0 {
			rules = append(slices.Clip(above), own)
		}
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		if !w.o.All && (entry.IsDir() && entry.Name() == ".git" || isIgnored(rules, name, entry.IsDir())) {
			continue
		}
		if slices.Contains(w.tree.folders.hidden, filepath.Join(w.tree.real, filepath.FromSlash(name))) {
			continue
		}
		if w.selected(name) && !w.visit(Entry{name, entry.Type(), w.tree, entry}) {
			return false, nil
		}
		if entry.IsDir() && w.o.Recursive {
			if more, err := w.folder(name, rules); !more || err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

func (w *walk) selected(name string) bool {
	if w.o.Pattern == "" {
		return true
	}
	if !strings.Contains(w.o.Pattern, "/") {
		name = path.Base(name)
	}
	ok, _ := doublestar.Match(strings.TrimPrefix(w.o.Pattern, "./"), name)
	return ok
}

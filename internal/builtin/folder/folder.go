// Package folder confines the built-in tools to configured folders. All access goes through
// [os.Root], so that neither .. nor a link leads outside, even if others rename and replace
// files meanwhile. Files that would change what Toolroom permits, such as its config and its
// state, are protected even inside. Begin with [Open].
package folder

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Folders are the folders that tools may use. Its methods are safe for concurrent use.
type Folders struct {
	dirs []string // absolute, without links
	// hidden paths cannot be used at all, and fixed ones cannot be changed.
	hidden, fixed []string
	excluded      func(mode, real string) bool // may be nil
}

// Excluding returns folders without the files for which refuse returns true. refuse gets a mode
// (read, write or delete) and the path, without links, of the file that has been opened. That
// path may differ from the one that policy saw, because a link may have changed since.
func (f *Folders) Excluding(refuse func(mode, real string) bool) *Folders {
	restricted := *f
	restricted.excluded = refuse
	return &restricted
}

// Options protect paths inside the folders.
type Options struct {
	// Hidden are files and folders that are neither read nor changed.
	Hidden []string
	// Fixed are files and folders that are not changed.
	Fixed []string
}

// configName is the name of config files. No tool may write one, because a Toolroom started in
// the folder would read it.
const configName = "toolroom.yaml"

// Open returns the folders dirs, which must exist. Relative paths refer to the first one.
func Open(dirs []string, o Options) (*Folders, error) {
	f := &Folders{}
	for _, dir := range dirs {
		real, err := realPath(dir)
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeNotFound, "the folder %s cannot be used: %w", dir, err).
				WithHint("correct builtin.file.roots in toolroom.yaml")
		}
		if info, err := os.Stat(real); err != nil || !info.IsDir() {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is not a folder", dir).
				WithHint("correct builtin.file.roots in toolroom.yaml")
		}
		f.dirs = append(f.dirs, real)
	}
	for _, path := range o.Hidden {
		hidden := resolveLinks(path)
		for _, dir := range f.dirs {
			if below(hidden, dir) {
				return nil, toolroom.Errorf(toolroom.CodeUnsupported, "the folder %s belongs to Toolroom itself, so no tool works in it", dir).
					WithHint("start Toolroom in another folder, or name the folders in toolroom.yaml: builtin: {file: {roots: [/srv/project]}}")
			}
		}
		f.hidden = append(f.hidden, hidden)
	}
	for _, path := range o.Fixed {
		f.fixed = append(f.fixed, resolveLinks(path))
	}
	return f, nil
}

func realPath(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(absolute)
}

// resolveLinks returns a path without links. The end of the path need not exist.
func resolveLinks(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for rest := ""; ; {
		if real, err := filepath.EvalSymlinks(absolute); err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(absolute)
		if parent == absolute {
			return filepath.Join(absolute, rest)
		}
		absolute, rest = parent, filepath.Join(filepath.Base(absolute), rest)
	}
}

// Dir returns the folder to which relative paths refer.
func (f *Folders) Dir() string { return f.dirs[0] }

// Dirs returns all folders.
func (f *Folders) Dirs() []string { return f.dirs }

// Hidden returns the paths inside the folders that cannot be used. None is inside another.
func (f *Folders) Hidden() []string { return f.inside(f.hidden) }

// Fixed returns the paths inside the folders that cannot be changed, without those in a hidden
// folder.
func (f *Folders) Fixed() []string { return f.inside(f.fixed) }

// inside returns the paths that are inside the folders. It omits those in a hidden folder,
// because a sandbox shows an empty folder there.
func (f *Folders) inside(paths []string) []string {
	var out []string
	for _, p := range paths {
		if slices.ContainsFunc(f.hidden, func(h string) bool { return h != p && below(h, p) }) {
			continue
		}
		for _, dir := range f.dirs {
			if below(dir, p) && dir != p {
				out = append(out, p)
				break
			}
		}
	}
	return out
}

// Enclosing returns the folders that contain a path of Hidden or Fixed and are inside the
// folders, outer ones first. A sandbox must keep them from being renamed. Otherwise a program
// could put another folder in their place, without the protection.
func (f *Folders) Enclosing() []string {
	var out []string
	for _, path := range append(f.Hidden(), f.Fixed()...) {
		for _, dir := range f.dirs {
			for at := filepath.Dir(path); at != dir && below(dir, at); at = filepath.Dir(at) {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// below reports whether a path is dir or in it. Both are absolute and clean.
func below(dir, path string) bool {
	if runtime.GOOS != "windows" {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
		return ok && (rest == "" || rest[0] == '/')
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// Absolute returns a path as results show it: absolute and clean.
func (f *Folders) Absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(f.Dir(), path)
}

// locate returns the folder of a path, and the rest of it.
func (f *Folders) locate(path string) (dir, rel string, err error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return "", "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a path", path)
	}
	absolute := f.Absolute(path)
	for _, dir := range f.dirs {
		if below(dir, absolute) {
			rel, err := filepath.Rel(dir, absolute)
			return dir, rel, err
		}
	}
	// The path may contain a link on its way to a folder, such as /tmp on macOS.
	real := resolveLinks(absolute)
	for _, dir := range f.dirs {
		if below(dir, real) {
			rel, err := filepath.Rel(dir, real)
			return dir, rel, err
		}
	}
	return "", "", f.outsideError(path)
}

func (f *Folders) outsideError(path string) error {
	absolute := f.Absolute(path)
	if real := resolveLinks(absolute); slices.ContainsFunc(f.dirs, func(dir string) bool { return below(dir, absolute) && !below(dir, real) }) {
		return toolroom.Errorf(toolroom.CodeDenied, "%s leads through a link to %s, which is outside the folders that the file tools may use", path, real).
			WithHint("use a path below %s, or add its folder in toolroom.yaml: builtin: {file: {roots: [%q, %q]}}", strings.Join(f.dirs, " or "), f.Dir(), folderOf(real))
	}
	return toolroom.Errorf(toolroom.CodeDenied, "%s is outside the folders that the file tools may use", path).
		WithHint("use a path below %s, or add its folder in toolroom.yaml: builtin: {file: {roots: [%q, %q]}}",
			strings.Join(f.dirs, " or "), f.Dir(), folderOf(f.Absolute(path)))
}

// folderOf returns the folder to suggest in the config for a path. It is never the root folder.
// It does not depend on whether the path exists or is a folder, because the caller must not
// learn that.
func folderOf(path string) string {
	if dir := filepath.Dir(path); dir != filepath.Dir(dir) {
		return dir
	}
	return path
}

// explainError converts the error of an operation on a path to one for the caller.
func (f *Folders) explainError(path string, err error) error {
	var known *toolroom.Error
	var whole *fs.PathError
	switch {
	case err == nil, errors.As(err, &known):
		return err
	case errors.Is(err, fs.ErrNotExist):
		missing := toolroom.Errorf(toolroom.CodeNotFound, "%s does not exist", path)
		if filepath.IsAbs(path) {
			return missing.WithHint("list its folder: file:list path=%q", filepath.Dir(path))
		}
		return missing.WithHint("list its folder: file:list path=%q; relative paths begin in %s", filepath.Dir(path), f.Dir())
	case errors.Is(err, fs.ErrPermission):
		return toolroom.Errorf(toolroom.CodeDenied, "%s: permission denied by the file system", path)
	case errors.As(err, &whole):
		if err = whole.Err; strings.Contains(err.Error(), "escapes") { // of os.Root
			return f.outsideError(path)
		}
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s: %w", path, err)
}

// place is an opened folder and a name in it.
type place struct {
	*os.Root
	name string
	real string // path of the folder, without links
}

// parent opens the folder that contains path. With create it creates missing folders. It
// follows links at the end of path as long as they stay inside the folders.
func (f *Folders) parent(path string, create bool) (*place, error) {
	dir, rel, err := f.locate(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, f.explainError(path, err)
	}
	defer root.Close()
	for links := 0; ; links++ {
		info, err := root.Lstat(rel)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			break
		}
		target, err := root.Readlink(rel)
		if err != nil {
			break
		}
		if links == maxLinks {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: too many links", path)
		}
		if !filepath.IsAbs(target) {
			rel = filepath.Join(filepath.Dir(rel), target)
		} else if rel, err = filepath.Rel(dir, target); err != nil {
			return nil, f.outsideError(path)
		}
		if !filepath.IsLocal(rel) {
			return nil, f.outsideError(path)
		}
	}
	folder := filepath.Dir(rel)
	if create {
		// Before folders are made for a write that is denied. Where they really are is checked
		// again once they are open.
		if err := f.checkPath(path, resolveLinks(filepath.Join(dir, rel)), "write"); err != nil {
			return nil, err
		}
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return nil, f.explainError(path, err)
		}
	}
	sub, err := root.OpenRoot(folder)
	if err != nil {
		return nil, f.explainError(path, err)
	}
	p := &place{Root: sub, name: filepath.Base(rel)}
	if p.real, err = p.path(filepath.Join(dir, folder)); err != nil {
		sub.Close()
		return nil, f.explainError(path, err)
	}
	return p, nil
}

const maxLinks = 40

// path returns the real path of the opened folder.
func (p *place) path(expected string) (string, error) {
	opened, err := p.Open(".")
	if err != nil {
		return "", err
	}
	defer opened.Close()
	return pathOf(opened, expected)
}

// pathOf returns the real path of an open file, from the kernel if possible, else expected.
func pathOf(f *os.File, expected string) (string, error) {
	if runtime.GOOS == "linux" {
		if real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err == nil {
			before, deleted := strings.CutSuffix(real, " (deleted)")
			if deleted && !isAt(f, real) { // else it is its name
				real = before
			}
			return real, nil
		}
	}
	return filepath.EvalSymlinks(expected)
}

func isAt(f *os.File, path string) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(info, named)
}

// modeRead is the mode of effects on files that only read them.
const modeRead = "read"

func (f *Folders) checkPath(path, real, mode string) error {
	for _, hidden := range f.hidden {
		if below(hidden, real) {
			return toolroom.Errorf(toolroom.CodeDenied, "%s belongs to Toolroom itself and is not shown to tools", path)
		}
	}
	if f.excluded != nil && f.excluded(mode, real) {
		return toolroom.Errorf(toolroom.CodeDenied, "the policy has a rule that forbids to %s %s", mode, path)
	}
	if mode == modeRead {
		return nil
	}
	if inGitFolder(real) {
		return toolroom.Errorf(toolroom.CodeDenied, "%s belongs to Git, which runs programs that its files name, so no file tool may change it", path).
			WithHint("use the tools of git, or shell:exec")
	}
	fixed := filepath.Base(real) == configName
	for _, p := range f.fixed {
		fixed = fixed || below(p, real)
	}
	if fixed {
		return toolroom.Errorf(toolroom.CodeDenied, "%s decides what Toolroom permits, so no tool may change it", path).
			WithHint("a person can edit it")
	}
	return nil
}

// inGitFolder reports whether a path is a repository's folder .git or in one. It ignores case,
// because some file systems do.
func inGitFolder(path string) bool {
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if strings.EqualFold(name, ".git") {
			return true
		}
	}
	return false
}

// File is an open regular file.
type File struct {
	*os.File
	Info fs.FileInfo
	// Real is its path without links.
	Real string
}

// Open opens a regular file for reading. It refuses folders, devices, sockets and pipes,
// and never blocks on them.
func (f *Folders) Open(path string) (*File, error) {
	dir, rel, err := f.locate(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, f.explainError(path, err)
	}
	defer root.Close()
	info, err := root.Stat(rel)
	if err != nil {
		return nil, f.explainError(path, err)
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	return f.openRegular(root, dir, rel, path)
}

// openRegular opens the file rel of root, which is the folder dir, and checks again that it is
// a regular file.
func (f *Folders) openRegular(root *os.Root, dir, rel, path string) (*File, error) {
	// The file may be another one by now: a pipe must not block the open.
	opened, err := root.OpenFile(rel, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, f.explainError(path, err)
	}
	real, err := pathOf(opened, filepath.Join(dir, rel))
	if err != nil {
		opened.Close()
		return nil, f.explainError(path, err)
	}
	return f.checkOpened(opened, real, path)
}

// checkOpened returns an open file if tools may read it, else it closes the file. real is the
// file's path without links.
func (f *Folders) checkOpened(opened *os.File, real, path string) (*File, error) {
	info, err := opened.Stat()
	if err == nil {
		err = checkRegular(path, info)
	}
	if err == nil {
		err = f.checkPath(path, real, modeRead)
	}
	if err != nil {
		opened.Close()
		return nil, f.explainError(path, err)
	}
	return &File{opened, info, real}, nil
}

func checkRegular(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is a folder", path).WithHint("list it: file:list path=%q", path)
	default:
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is no regular file but a %s, which is never opened", path, fileKind(mode))
	}
}

func fileKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	default:
		return "special file"
	}
}

// Read reads a whole file of at most the given number of bytes.
func (f *Folders) Read(path string, most int64) ([]byte, fs.FileInfo, error) {
	file, err := f.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, nil, f.explainError(path, err)
	}
	if int64(len(data)) > most {
		return nil, nil, toolroom.Errorf(toolroom.CodeResourceLimit, "%s has %d bytes, and at most %d can be taken", path, file.Info.Size(), most)
	}
	return data, file.Info, nil
}

// Stat describes the file at path. It follows links that stay inside the folders.
func (f *Folders) Stat(path string) (fs.FileInfo, error) {
	dir, rel, err := f.locate(path)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, f.explainError(path, err)
	}
	defer root.Close()
	info, err := root.Stat(rel)
	return info, f.explainError(path, err)
}

// Write replaces the file at path atomically, or creates it and its folders. If before is not
// nil, it describes the file when the caller read it, and Write returns an error with code
// conflict if the file has changed since.
func (f *Folders) Write(path string, data []byte, before fs.FileInfo) error {
	p, err := f.parent(path, true)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := f.checkPath(path, filepath.Join(p.real, p.name), "write"); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	info, err := p.Lstat(p.name)
	switch {
	case err == nil:
		if err := checkRegular(path, info); err != nil {
			return err
		}
		perm = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist):
		return f.explainError(path, err)
	}
	return f.explainError(path, p.replace(data, perm, func() error {
		if before == nil {
			return nil
		}
		now, err := p.Lstat(p.name)
		if err != nil || !os.SameFile(now, before) || now.Size() != before.Size() || !now.ModTime().Equal(before.ModTime()) {
			return toolroom.Errorf(toolroom.CodeConflict, "%s has been changed by another program meanwhile", path).WithHint("read it again, then repeat the change")
		}
		return nil
	}))
}

// replace writes a new file beside the old one, calls check, and then renames the new file.
func (p *place) replace(data []byte, perm fs.FileMode, check func() error) error {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	temp := "." + p.name + "." + hex.EncodeToString(random[:])
	if len(temp) > 255 {
		temp = "." + hex.EncodeToString(random[:])
	}
	file, err := p.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Chmod(perm), file.Sync(), file.Close())
	if err == nil {
		err = check()
	}
	if err == nil {
		err = p.Rename(temp, p.name)
	}
	if err != nil {
		_ = p.Remove(temp)
	}
	return err
}

// Remove removes a regular file.
func (f *Folders) Remove(path string) error {
	p, err := f.parent(path, false)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := f.checkPath(path, filepath.Join(p.real, p.name), "delete"); err != nil {
		return err
	}
	info, err := p.Lstat(p.name)
	if err == nil {
		err = checkRegular(path, info)
	}
	if err == nil {
		err = p.Remove(p.name)
	}
	return f.explainError(path, err)
}

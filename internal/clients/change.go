package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// State describes a client's file.
type State struct {
	Client Client
	File   string
	// Installed reports whether the client seems to be installed.
	Installed bool
	// Connected reports whether the file has Toolroom.
	Connected bool
	// Servers are the names of its other servers.
	Servers []string
	// Problem is why the file cannot be read, without its name.
	Problem error
}

// ReadState reads a client's file. An empty file means the usual one.
func ReadState(c Client, home, file string) State {
	s := State{Client: c, File: file, Installed: true}
	if file == "" {
		s.File, s.Installed = c.Path(home)
	}
	text, _, err := read(s.File)
	if err == nil {
		s.Servers, err = c.formOf(text).servers(text)
	}
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		err = failed.Err
	}
	s.Problem = err
	if i := slices.Index(s.Servers, EntryName); i >= 0 {
		s.Connected = true
		s.Servers = slices.Delete(s.Servers, i, i+1)
	}
	return s
}

// read returns the content of a file, which may not exist.
func read(file string) (text []byte, exists bool, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, false, &fs.PathError{Op: "read", Path: file, Err: errors.New("it is not a file of a client")}
	}
	text, err = os.ReadFile(file)
	return text, true, err
}

// formOf returns the form of a client's file with this text. In files of opencode 2 the servers
// are one level deeper; see https://opencode.ai/docs/mcp-servers.
func (c Client) formOf(text []byte) form {
	if c.Name != "opencode" {
		return c.form
	}
	deeper := jsonForm{[]string{"mcp", "servers"}}
	if servers, _, err := deeper.decode(text); err == nil && len(servers) > 0 && servers["type"] == nil {
		return deeper
	}
	return c.form
}

// Change is a change of a client's file.
type Change struct {
	Client        Client
	File          string
	Before, After []byte
	exists        bool
	// removed are the texts of the entries that the change removes, by name.
	removed map[string]string
}

// Prepare computes the change that adds s to a client's file, in place of an earlier Toolroom, and
// removes the servers in take. [Change.Write] writes it. Comments and order in the file are
// preserved.
func Prepare(c Client, file string, s Self, take []string) (*Change, error) {
	text, exists, err := read(file)
	if err != nil {
		return nil, err
	}
	change := &Change{Client: c, File: file, Before: text, exists: exists, removed: map[string]string{}}
	f := c.formOf(text)
	out := text
	names, err := f.servers(text)
	for _, name := range names {
		if err != nil {
			break
		}
		if name != EntryName && !slices.Contains(take, name) {
			continue
		}
		var was []byte
		if out, was, err = f.remove(out, name); err == nil {
			change.removed[name] = string(was)
			err = checkServer(f, out, name, false)
		}
	}
	if err == nil {
		out, err = f.add(out, EntryName, c.entry(s))
	}
	if err == nil {
		err = checkServer(f, out, EntryName, true)
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s cannot be edited: %w", file, err).
			WithCLIHint("correct the file, or name another one with --file")
	}
	change.After = out
	return change, nil
}

// checkServer returns an error unless the presence of a server in a file is there. Otherwise the
// file has a form that is not supported.
func checkServer(f form, text []byte, name string, there bool) error {
	names, err := f.servers(text)
	if err == nil && slices.Contains(names, name) != there {
		err = fmt.Errorf("the server %q stands in a form that is not edited", name)
	}
	return err
}

// Same reports whether there is nothing to write.
func (c *Change) Same() bool { return bytes.Equal(c.Before, c.After) }

// Write completes the record r of the change, stores it in the home, and then writes the client's
// file. If the file has changed since Prepare, Write returns an error and changes nothing.
func (c *Change) Write(home string, r *Record) error {
	text, exists, err := read(c.File)
	if err != nil {
		return err
	}
	if exists != c.exists || !bytes.Equal(text, c.Before) {
		return toolroom.Errorf(toolroom.CodeConflict, "%s has changed meanwhile", c.File).WithCLIHint("try again; close %s first", c.Client.Title)
	}
	r.File, r.Exists, r.After, r.Removed = c.File, c.exists, digest(c.After), c.removed
	before := c.Before
	mode := fs.FileMode(0o600)
	if info, err := os.Stat(c.File); err == nil {
		mode = info.Mode().Perm()
	}
	r.Mode = uint32(mode)
	if r.Token != "" {
		mode &= 0o700 // nobody else may read the token
	}
	// Undo must restore the file as it was before the first change.
	earlier, err := Recorded(home, c.Client, c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if r.name, err = newRecordName(home, c.Client); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		r.name = earlier.name
		var exact bool
		if before, exact, err = fileBefore(home, c.Client, earlier, c.Before); err != nil {
			return err
		}
		if exact { // otherwise the client has written to the file, and its changes are kept
			r.Exists = earlier.Exists
		}
		r.Mode = earlier.Mode
		r.Removed = map[string]string{}
		for _, from := range []map[string]string{c.removed, earlier.Removed} {
			maps.Copy(r.Removed, from)
		}
		if _, ok := earlier.Removed[EntryName]; !ok {
			delete(r.Removed, EntryName) // an earlier change has added it
		}
		r.Sources = append(slices.Clone(earlier.Sources), r.Sources...)
		r.Secrets = append(slices.Clone(earlier.Secrets), r.Secrets...)
	}
	r.Before = digest(before)
	path, backup := r.path(home), r.BackupPath(home)
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	putBack, err := snapshot(backup, path)
	if err != nil {
		return err
	}
	if err = atomicfile.Write(backup, before, 0o600); err == nil {
		err = atomicfile.Write(path, data, 0o600)
	}
	if err == nil {
		err = c.writeFile(mode)
	}
	if err != nil { // the earlier record must match the file again
		return errors.Join(err, putBack())
	}
	return nil
}

// writeFile writes the client's file, with a mode that permits no more than its own.
func (c *Change) writeFile(mode fs.FileMode) error {
	if !c.exists {
		return errors.Join(os.MkdirAll(filepath.Dir(c.File), 0o755), atomicfile.Write(c.File, c.After, mode))
	}
	info, err := os.Stat(c.File)
	if err != nil {
		return err
	}
	if err := os.Chmod(c.File, mode); err != nil { // atomicfile.Write keeps the permissions of a file
		return err
	}
	if err := atomicfile.Write(c.File, c.After, mode); err != nil {
		return errors.Join(err, os.Chmod(c.File, info.Mode().Perm()))
	}
	return nil
}

// snapshot returns a function that restores files to their current content.
func snapshot(files ...string) (putBack func() error, err error) {
	were := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err == nil {
			were[file] = text
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return func() (failed error) {
		for _, file := range files {
			text, was := were[file]
			var err error
			if was {
				err = atomicfile.Write(file, text, 0o600)
			} else if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
			failed = errors.Join(failed, err)
		}
		return failed
	}, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Undo undoes a recorded change of a client's file; an empty file means the only recorded one.
// exact is true if the file is restored byte by byte. Otherwise the client has written to it since,
// and only the entries were restored.
func Undo(home string, c Client, file string) (r Record, exact bool, err error) {
	r, err = Recorded(home, c, file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, toolroom.Errorf(toolroom.CodeNotFound, "%s was not connected from this home", c.Title).
			WithCLIHint("see what is connected: toolroom connect")
	}
	if err != nil {
		return r, false, err
	}
	text, exists, err := read(r.File)
	if err != nil {
		return r, false, err
	}
	before, exact, err := fileBefore(home, c, r, text)
	if err != nil {
		return r, exact, err
	}
	switch {
	case !exists && len(r.Removed) == 0:
		// The file has been removed. Do not write an empty one, which the client could not read.
	case exact && !r.Exists:
		err = os.Remove(r.File)
	case exact:
		err = errors.Join(atomicfile.Write(r.File, before, fs.FileMode(r.Mode)), os.Chmod(r.File, fs.FileMode(r.Mode)))
	default:
		err = atomicfile.Write(r.File, before, fs.FileMode(r.Mode))
	}
	if err != nil {
		return r, exact, err
	}
	return r, exact, errors.Join(os.Remove(r.path(home)), os.Remove(r.BackupPath(home)))
}

// fileBefore returns the content of a client's file before a recorded change. If the file has
// changed since, exact is false and fileBefore returns text with the entries restored.
func fileBefore(home string, c Client, r Record, text []byte) (before []byte, exact bool, err error) {
	if digest(text) == r.After {
		before, err = os.ReadFile(r.BackupPath(home))
		if err != nil || r.Before == "" || r.Before == digest(before) {
			return before, true, err
		}
	}
	before, err = restoreEntries(c, r, text)
	return before, false, err
}

// restoreEntries removes Toolroom from a file that has changed since, and adds the entries that
// had been removed.
func restoreEntries(c Client, r Record, text []byte) ([]byte, error) {
	f := c.formOf(text)
	names, err := f.servers(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.File, err)
	}
	if slices.Contains(names, EntryName) {
		if text, _, err = f.remove(text, EntryName); err != nil {
			return nil, err
		}
	}
	for name, was := range r.Removed {
		if name != EntryName && slices.Contains(names, name) {
			continue // somebody has added it again
		}
		if text, err = f.put(text, name, []byte(was)); err != nil {
			return nil, err
		}
	}
	return text, nil
}

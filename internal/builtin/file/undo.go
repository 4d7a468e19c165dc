package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// undoStore keeps the files that the last calls replaced, for each identity and session.
type undoStore struct{ dir string }

// undoEntry holds the files that one call replaced.
type undoEntry struct {
	Tool  string     `json:"tool"`
	Time  time.Time  `json:"time"`
	Files []undoFile `json:"files"`
}

type undoFile struct {
	Path   string `json:"path"` // absolute
	Before []byte `json:"before,omitempty"`
	Exists bool   `json:"exists"` // before the call
	// After is the hash of the content after the call; empty means that the file is gone.
	After string `json:"after,omitempty"`
}

const (
	maxUndo     = 50       // calls kept for one session
	maxUndoFile = 16 << 20 // bytes kept of one call
)

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (s undoStore) folder(req *source.Request) string {
	return filepath.Join(s.dir, hash([]byte(identity.Owner(req.Identity)))[:16], hash([]byte(req.Session))[:16])
}

// record stores the files that changes replace. If they are too large, the call cannot be
// undone.
func (s undoStore) record(req *source.Request, folders *folder.Folders, changes []change) error {
	if s.dir == "" {
		return nil
	}
	entry, size := undoEntry{Tool: req.Tool.String(), Time: time.Now().UTC()}, 0
	for _, c := range changes {
		f := undoFile{Path: folders.Absolute(c.path), Before: c.before, Exists: c.existedBefore}
		if c.existsAfter {
			f.After = hash(c.after)
		}
		size += len(c.before)
		entry.Files = append(entry.Files, f)
	}
	if size > maxUndoFile || slices.ContainsFunc(changes, func(c change) bool { return c.existedBefore && c.before == nil }) {
		return nil
	}
	data, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	dir := s.folder(req)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("the files were changed, but the change cannot be undone: %w", err)
	}
	name := fmt.Sprintf("%020d.json", time.Now().UnixNano())
	if err := atomicfile.Write(filepath.Join(dir, name), data, 0o600); err != nil {
		return fmt.Errorf("the files were changed, but the change cannot be undone: %w", err)
	}
	names, err := s.names(dir)
	for i := 0; err == nil && i < len(names)-maxUndo; i++ {
		if err = os.Remove(filepath.Join(dir, names[i])); errors.Is(err, fs.ErrNotExist) {
			err = nil // another call has removed it
		}
	}
	return err
}

// names lists the entries, oldest first.
func (s undoStore) names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// UndoArgs are the arguments of file:undo.
type UndoArgs struct {
	Count int `json:"count,omitempty" jsonschema:"how many of the last changing calls to undo"`
}

// UndoResult is the value of file:undo.
type UndoResult struct {
	Files []Change `json:"files" jsonschema:"the files that were restored"`
	Left  int      `json:"left" jsonschema:"calls that can still be undone"`
}

func (f *files) undoTool() builtin.Tool {
	return builtin.MustTool(builtin.Spec[UndoArgs, UndoResult]{
		Tool: builtin.Define("file:undo", "file", "Undo file changes",
			"Undo or revert the last file changes of this session: restore a file as it was before it was written, edited or patched. A file that was changed again since is left alone.",
			builtin.Hints(false, true, false), map[string]any{}),
		Arguments: map[string]builtin.Property{"count": {"minimum": 1, "maximum": maxUndo, "default": 1}},
		Predict: func(req *source.Request, in UndoArgs) []toolroom.Effect {
			var effects []toolroom.Effect
			entries, _, err := f.undo.lastEntries(req, max(in.Count, 1))
			if err != nil {
				return writeEffects("")
			}
			for _, e := range entries {
				for _, file := range e.Files {
					if file.Exists {
						effects = append(effects, writeEffects(file.Path)...)
					} else {
						effects = append(effects, toolroom.Effect{Kind: toolroom.EffectFile, Mode: "delete", Target: file.Path})
					}
				}
			}
			return effects
		},
		Enforces: isFileRule,
		Preview: func(_ context.Context, req *source.Request, in UndoArgs) (source.Preview, error) {
			entries, _, err := f.undo.lastEntries(req, max(in.Count, 1))
			if err != nil {
				return source.Preview{}, err
			}
			var changes []change
			for _, e := range entries {
				for _, file := range slices.Backward(e.Files) {
					now, _, _ := f.Read(file.Path, maxChange)
					changes = append(changes, change{path: file.Path, before: now, after: file.Before, existedBefore: file.After != "", existsAfter: file.Exists})
				}
			}
			return preview(changes), nil
		},
		Run: func(ctx context.Context, req *source.Request, in UndoArgs) (UndoResult, []toolroom.Content, error) {
			return f.withRules(req, "write", "delete").undoLast(ctx, req, max(in.Count, 1))
		},
	})
}

// lastEntries returns the newest entries, newest first, and their names.
func (s undoStore) lastEntries(req *source.Request, n int) ([]undoEntry, []string, error) {
	names, err := s.names(s.folder(req))
	if err != nil {
		return nil, nil, err
	}
	names = names[max(0, len(names)-n):]
	slices.Reverse(names)
	var entries []undoEntry
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(s.folder(req), name))
		if err != nil {
			return nil, nil, err
		}
		var e undoEntry
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", name, err)
		}
		entries = append(entries, e)
	}
	return entries, names, nil
}

func (f *files) undoLast(ctx context.Context, req *source.Request, n int) (UndoResult, []toolroom.Content, error) {
	out := UndoResult{Files: []Change{}}
	entries, names, err := f.undo.lastEntries(req, n)
	if err != nil {
		return out, nil, err
	}
	if len(entries) == 0 {
		return out, nil, toolroom.Errorf(toolroom.CodeNotFound, "this session has no file changes that can be undone").
			WithHint("only changes by file:write, file:edit and file:patch in the same session can be undone")
	}
	for i, e := range entries {
		if err := ctx.Err(); err != nil {
			return out, nil, err
		}
		restored, err := f.undoEntry(e)
		if err != nil {
			return out, nil, err
		}
		out.Files = append(out.Files, restored...)
		if err := os.Remove(filepath.Join(f.undo.folder(req), names[i])); err != nil {
			return out, nil, err
		}
	}
	left, err := f.undo.names(f.undo.folder(req))
	out.Left = len(left)
	var text strings.Builder
	for _, c := range out.Files {
		what := "restored"
		if c.Deleted {
			what = "removed"
		}
		fmt.Fprintf(&text, "%s %s\n", what, c.Path)
	}
	return out, builtin.Text(text.String()), err
}

// undoEntry restores the files of one call, if none of them has changed since.
func (f *files) undoEntry(e undoEntry) ([]Change, error) {
	for _, file := range e.Files {
		now, _, err := f.Read(file.Path, maxChange)
		gone := toolroom.CodeOf(err) == toolroom.CodeNotFound
		if err != nil && !gone {
			return nil, err
		}
		if gone != (file.After == "") || !gone && hash(now) != file.After {
			return nil, toolroom.Errorf(toolroom.CodeConflict, "%s has been changed since %s at %s, so it is left alone", file.Path, e.Tool, e.Time.Format(time.RFC3339)).
				WithHint("change the file with file:edit")
		}
	}
	var out []Change
	for _, file := range slices.Backward(e.Files) {
		c := change{path: file.Path, before: file.Before, existedBefore: file.Exists}
		if err := f.restore(c); err != nil {
			return out, err
		}
		out = append(out, Change{Path: file.Path, Created: file.Exists && file.After == "", Deleted: !file.Exists})
	}
	return out, nil
}

package file

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// WriteArgs are the arguments of file:write.
type WriteArgs struct {
	Path     string `json:"path" jsonschema:"path of the file; missing folders are created"`
	Content  string `json:"content" jsonschema:"the whole new content"`
	Encoding string `json:"encoding,omitempty" jsonschema:"utf8, or base64 if content is bytes in base64"`
}

// WriteResult is the value of file:write.
type WriteResult struct {
	Path    string `json:"path" jsonschema:"the file"`
	Bytes   int    `json:"bytes" jsonschema:"size of the new content"`
	Created bool   `json:"created" jsonschema:"the file is new"`
	Added   int    `json:"added" jsonschema:"lines added"`
	Removed int    `json:"removed" jsonschema:"lines removed"`
}

func (f *files) write() builtin.Tool {
	plan := func(f *files, in WriteArgs) (change, fs.FileInfo, error) {
		c := change{path: in.Path, after: []byte(in.Content), existsAfter: true}
		if in.Encoding == "base64" {
			data, err := base64.StdEncoding.DecodeString(in.Content)
			if err != nil {
				return c, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "content is not base64: %w", err)
			}
			c.after = data
		}
		before, info, err := f.Read(in.Path, maxChange)
		switch toolroom.CodeOf(err) {
		case "":
			c.before, c.existedBefore = before, true
		case toolroom.CodeNotFound:
		case toolroom.CodeResourceLimit: // it can be replaced, but not shown or undone
			c.existedBefore = true
		default:
			return c, nil, err
		}
		return c, info, nil
	}
	return builtin.MustTool(builtin.Spec[WriteArgs, WriteResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("file:write"), Title: "Write a file",
			Description: "Write, save or create a new file on disk: put this text or JSON into a file, or overwrite a whole file with new content. To change only a part of a file use file:edit.",
			Hints:       builtin.Hints(false, true, false), Guarantee: toolroom.GuaranteeSafe, Tags: []string{"file"},
			Effects:  writeEffects("{path}"),
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"path": "notes/today.md", "content": "# Today\n"})}},
		},
		Arguments: map[string]builtin.Property{"path": {"minLength": 1}, "encoding": {"enum": []string{"utf8", "base64"}, "default": "utf8"}},
		Predict:   func(_ *source.Request, in WriteArgs) []toolroom.Effect { return writeEffects(in.Path) },
		Enforces:  isFileRule,
		Preview: func(_ context.Context, _ *source.Request, in WriteArgs) (source.Preview, error) {
			c, _, err := plan(f, in)
			return preview([]change{c}), err
		},
		Run: func(ctx context.Context, req *source.Request, in WriteArgs) (WriteResult, []toolroom.Content, error) {
			f := f.withRules(req, "write", "delete")
			c, _, err := plan(f, in)
			if err != nil {
				return WriteResult{}, nil, err
			}
			if err := f.apply(ctx, req, []planned{{change: c}}); err != nil {
				return WriteResult{}, nil, err
			}
			added, removed := countDiff(c.diff())
			out := WriteResult{Path: f.Absolute(in.Path), Bytes: len(c.after), Created: !c.existedBefore, Added: added, Removed: removed}
			what := "Replaced"
			if out.Created {
				what = "Created"
			}
			return out, builtin.Text(fmt.Sprintf("%s %s (%d bytes).", what, in.Path, out.Bytes)), nil
		},
	})
}

// planned is a change with the state of the file when it was read.
type planned struct {
	change
	info fs.FileInfo
}

// apply makes all changes or, after an error, none, and records them for file:undo.
func (f *files) apply(ctx context.Context, req *source.Request, changes []planned) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, c := range changes {
		var err error
		if c.existsAfter {
			err = f.Write(c.path, c.after, c.info)
		} else {
			err = f.Remove(c.path)
		}
		if err == nil {
			continue
		}
		for _, done := range changes[:i] {
			if back := f.restore(done.change); back != nil {
				return toolroom.Errorf(toolroom.CodeExecutionFailed, "%w; and %s could not be restored: %w", err, done.path, back)
			}
		}
		return err
	}
	var all []change
	for _, c := range changes {
		all = append(all, c.change)
	}
	return f.undo.record(req, f.Folders, all)
}

// restore restores the file that a change replaced.
func (f *files) restore(c change) error {
	if c.existedBefore {
		return f.Write(c.path, c.before, nil)
	}
	return f.Remove(c.path)
}

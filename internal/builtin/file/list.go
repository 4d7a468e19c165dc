package file

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// ListArgs are the arguments of file:list.
type ListArgs struct {
	Path      string `json:"path,omitempty" jsonschema:"the folder"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"include the folders below"`
	Pattern   string `json:"pattern,omitempty" jsonschema:"a glob that selects entries, such as *.go or src/**/*.ts; one with a slash, or **, searches the folders below"`
	All       bool   `json:"all,omitempty" jsonschema:"include what .gitignore excludes"`
	Limit     int    `json:"limit,omitempty" jsonschema:"the most entries to return"`
}

// ListResult is the value of file:list.
type ListResult struct {
	Path    string  `json:"path" jsonschema:"the folder"`
	Entries []Entry `json:"entries" jsonschema:"files and folders in the order of names"`
	More    bool    `json:"more,omitempty" jsonschema:"there are more entries than the limit"`
}

// Entry is one file or folder of a list.
type Entry struct {
	Path     string    `json:"path" jsonschema:"path as the other tools of files take it"`
	Type     string    `json:"type" jsonschema:"file, folder, link or other"`
	Size     int64     `json:"size,omitempty" jsonschema:"size of a file in bytes"`
	Modified time.Time `json:"modified,omitzero" jsonschema:"time of the last change"`
}

const (
	defaultEntries = 1000
	maxEntries     = 20_000
)

func (f *files) list() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ListArgs, ListResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("file:list"), Title: "List files",
			Description: "List the files in a folder (ls): show the contents of a directory, or find files by name with a glob pattern. What .gitignore excludes is left out unless all is set.",
			Hints:       builtin.Hints(true, false, false), Tags: []string{"file"},
			Examples: []toolroom.Example{
				{Arguments: builtin.Arguments(map[string]any{})},
				{Title: "all Go files", Arguments: builtin.Arguments(map[string]any{"pattern": "**/*.go"})},
			},
		},
		Arguments: map[string]builtin.Property{
			"path": {"default": ".", "minLength": 1}, "recursive": {"default": false}, "limit": {"minimum": 1, "maximum": maxEntries, "default": defaultEntries},
		},
		Predict: func(_ *source.Request, in ListArgs) []toolroom.Effect { return readEffects(orCurrentFolder(in.Path)) },
		// What is in a folder is not predicted: what rules are about is left out.
		Enforces: isFileRule,
		Run: func(ctx context.Context, req *source.Request, in ListArgs) (ListResult, []toolroom.Content, error) {
			out := ListResult{Path: f.Absolute(orCurrentFolder(in.Path)), Entries: []Entry{}}
			tree, err := f.OpenTree(orCurrentFolder(in.Path))
			if err != nil {
				return out, nil, err
			}
			defer tree.Close()
			limit := cmp.Or(in.Limit, defaultEntries)
			forbidden := policy.FileMatcher(req.Forbidden, "read")
			deep := in.Recursive || strings.Contains(in.Pattern, "/") || strings.Contains(in.Pattern, "**")
			err = tree.Walk(ctx, folder.WalkOptions{Recursive: deep, Pattern: in.Pattern, All: in.All}, func(e folder.Entry) bool {
				if forbidden(filepath.ToSlash(filepath.Join(tree.Real(), e.Path))) {
					return true
				}
				if len(out.Entries) == limit {
					out.More = true
					return false
				}
				out.Entries = append(out.Entries, entryOf(orCurrentFolder(in.Path), e))
				return true
			})
			if err == nil {
				err = tree.CheckUnmoved()
			}
			return out, builtin.Text(out.text()), err
		},
	})
}

func orCurrentFolder(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// entryOf describes an entry of a folder, with a path that the other tools take.
func entryOf(dir string, e folder.Entry) Entry {
	out := Entry{Path: path.Join(filepath.ToSlash(dir), e.Path), Type: "other"}
	switch {
	case e.Type.IsDir():
		out.Type = "folder"
	case e.Type.IsRegular():
		out.Type = "file"
	case e.Type&fs.ModeSymlink != 0:
		out.Type = "link"
	}
	if info, err := e.Info(); err == nil {
		out.Modified = info.ModTime().UTC().Truncate(time.Second)
		if out.Type == "file" {
			out.Size = info.Size()
		}
	}
	return out
}

// text returns the list as models read it: one path per line, folders with a slash.
func (r ListResult) text() string {
	var b strings.Builder
	for _, e := range r.Entries {
		b.WriteString(builtin.FileName(e.Path))
		switch e.Type {
		case "folder":
			b.WriteString("/")
		case "file":
			fmt.Fprintf(&b, "  %d", e.Size)
		case "link":
			b.WriteString("  (link)")
		}
		b.WriteString("\n")
	}
	switch {
	case len(r.Entries) == 0:
		return "There are no entries."
	case r.More:
		fmt.Fprintf(&b, "[there are more than %d entries; narrow the pattern or raise limit]\n", len(r.Entries))
	}
	return b.String()
}

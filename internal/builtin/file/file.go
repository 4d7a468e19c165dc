// Package file provides the built-in tools that read, write, change, list and search files
// in the folders that the config names.
package file

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// Options configure the pack.
type Options struct {
	Folders *folder.Folders
	// Undo is the folder that keeps what writes replaced; empty keeps nothing.
	Undo string
	// PDF returns the text of pages of a PDF file; nil means that PDF files are binary.
	PDF func(ctx context.Context, data []byte, first, last int) (text string, pages int, err error)
}

// Limits of the tools, in bytes.
const (
	maxChange = 32 << 20 // a file that is edited or patched
	maxDiff   = 32 << 10 // a diff in a result or a preview
)

// Pack returns the tools. If missing is not nil, they all return it.
func Pack(o Options, missing *toolroom.Error) *builtin.Pack {
	f := &files{Folders: o.Folders, undo: undoStore{o.Undo}, pdf: o.PDF}
	p := &builtin.Pack{
		Name:    "file",
		Tools:   []builtin.Tool{f.read(), f.write(), f.edit(), f.patch(), f.list(), f.search(), f.undoTool()},
		Missing: missing,
	}
	if o.Folders != nil {
		p.Dir = o.Folders.Dir()
	}
	return p
}

type files struct {
	*folder.Folders
	undo undoStore
	pdf  func(ctx context.Context, data []byte, first, last int) (string, int, error)
}

// withRules returns files without those that rules of the policy forbid to the call in one of
// the modes. It checks the real path when a file is opened, because links may have changed
// since the policy decided.
func (f *files) withRules(req *source.Request, modes ...string) *files {
	forbidden := map[string]func(string) bool{}
	for _, mode := range modes {
		forbidden[mode] = policy.FileMatcher(req.Forbidden, mode)
	}
	restricted := *f
	restricted.Folders = f.Excluding(func(mode, real string) bool {
		about := forbidden[mode]
		return about != nil && about(filepath.ToSlash(real))
	})
	return &restricted
}

// isFileRule reports whether a rule is about files. The tools enforce such rules, by
// [files.withRules] or by themselves.
func isFileRule(rule toolroom.Effect) bool { return rule.Kind == toolroom.EffectFile }

func readEffects(path string) []toolroom.Effect {
	return []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "read", Target: path}}
}

func writeEffects(path string) []toolroom.Effect {
	return []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: path}}
}

// Change is a changed file in a result.
type Change struct {
	Path    string `json:"path" jsonschema:"the file"`
	Created bool   `json:"created,omitempty" jsonschema:"the file is new"`
	Deleted bool   `json:"deleted,omitempty" jsonschema:"the file has been removed"`
	MovedTo string `json:"moved_to,omitempty" jsonschema:"the new path of a renamed file"`
	Added   int    `json:"added" jsonschema:"lines added"`
	Removed int    `json:"removed" jsonschema:"lines removed"`
}

// change is a planned change of one file.
type change struct {
	path                       string
	before, after              []byte
	existedBefore, existsAfter bool // whether the file exists before and after
}

// diff returns a unified diff, or "" if one side is not text.
func (c change) diff() string {
	if !utf8.Valid(c.before) || !utf8.Valid(c.after) || len(c.before)+len(c.after) > 4<<20 {
		return ""
	}
	text := string(diff.Diff("a/"+filepath.ToSlash(c.path), c.before, "b/"+filepath.ToSlash(c.path), c.after))
	if _, body, ok := strings.Cut(text, "\n"); ok && strings.HasPrefix(text, "diff ") {
		text = body
	}
	return text
}

// countDiff counts the lines that the diff of a file adds and removes.
func countDiff(diff string) (added, removed int) {
	inHunk := false
	for line := range strings.Lines(diff) {
		switch {
		case line[0] == '@':
			inHunk = true
		case inHunk && line[0] == '+':
			added++
		case inHunk && line[0] == '-':
			removed++
		}
	}
	return added, removed
}

func truncateDiff(diff string) string {
	if len(diff) <= maxDiff {
		return diff
	}
	cut := strings.ToValidUTF8(diff[:maxDiff], "")
	return fmt.Sprintf("%s\n(%d more bytes are not shown)\n", cut, len(diff)-len(cut))
}

// preview describes changes to the person who decides about them.
func preview(changes []change) source.Preview {
	var p source.Preview
	var diffs strings.Builder
	for _, c := range changes {
		switch {
		case !c.existedBefore:
			p.Effects = append(p.Effects, fmt.Sprintf("creates the file %s (%d bytes)", c.path, len(c.after)))
		case !c.existsAfter:
			p.Effects = append(p.Effects, fmt.Sprintf("deletes the file %s (%d bytes)", c.path, len(c.before)))
		default:
			p.Effects = append(p.Effects, fmt.Sprintf("replaces the file %s (%d bytes become %d)", c.path, len(c.before), len(c.after)))
		}
		diffs.WriteString(c.diff())
	}
	p.Diff = truncateDiff(diffs.String())
	return p
}

package file

import (
	"context"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// PatchArgs are the arguments of file:patch.
type PatchArgs struct {
	Patch string `json:"patch" jsonschema:"a unified diff, or a patch in the form *** Begin Patch … *** End Patch; it may change, create, rename and delete several files"`
}

// PatchResult is the value of file:patch.
type PatchResult struct {
	Files []Change `json:"files" jsonschema:"the changed files"`
	Notes []string `json:"notes,omitempty" jsonschema:"hunks that did not fit exactly where they said"`
}

func (f *files) patch() builtin.Tool {
	return builtin.MustTool(builtin.Spec[PatchArgs, PatchResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("file:patch"), Title: "Apply a patch",
			Description: "Apply a patch or unified diff to update one or several files. Takes the forms of diff and of apply_patch; either all of its changes are made or none.",
			Hints:       builtin.Hints(false, true, false), Tags: []string{"file"},
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{
				"patch": "--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1 +1 @@\n-hello\n+good morning\n",
			})}},
		},
		Arguments: map[string]builtin.Property{"patch": {"minLength": 1}},
		Predict: func(_ *source.Request, in PatchArgs) []toolroom.Effect {
			patches, err := parsePatch(in.Patch)
			if err != nil {
				return writeEffects("")
			}
			var effects []toolroom.Effect
			for _, p := range patches {
				switch {
				case p.deleted, p.to != "":
					effects = append(effects, toolroom.Effect{Kind: toolroom.EffectFile, Mode: "delete", Target: p.path})
				default:
					effects = append(effects, writeEffects(p.path)...)
				}
				if p.to != "" {
					effects = append(effects, append(readEffects(p.path), writeEffects(p.to)...)...)
				} else if !p.created {
					effects = append(effects, readEffects(p.path)...)
				}
			}
			return effects
		},
		Enforces: isFileRule,
		Preview: func(_ context.Context, _ *source.Request, in PatchArgs) (source.Preview, error) {
			changes, _, err := f.planPatch(in.Patch)
			if err != nil {
				return source.Preview{}, err
			}
			var all []change
			for _, c := range changes {
				all = append(all, c.change)
			}
			return preview(all), nil
		},
		Run: func(ctx context.Context, req *source.Request, in PatchArgs) (PatchResult, []toolroom.Content, error) {
			f := f.withRules(req, "read", "write", "delete")
			changes, out, err := f.planPatch(in.Patch)
			if err != nil {
				return PatchResult{}, nil, err
			}
			if err := f.apply(ctx, req, changes); err != nil {
				return PatchResult{}, nil, err
			}
			var text strings.Builder
			for _, c := range out.Files {
				fmt.Fprintf(&text, "%s %s (+%d -%d)\n", c.verb(), c.Path, c.Added, c.Removed)
			}
			for _, note := range out.Notes {
				text.WriteString(note + "\n")
			}
			return out, builtin.Text(text.String()), nil
		},
	})
}

func (c Change) verb() string {
	switch {
	case c.Created:
		return "created"
	case c.Deleted:
		return "deleted"
	case c.MovedTo != "":
		return "moved to " + c.MovedTo + ":"
	default:
		return "changed"
	}
}

// planPatch computes all changes of a patch without making any.
func (f *files) planPatch(text string) ([]planned, PatchResult, error) {
	patches, err := parsePatch(text)
	if err != nil {
		return nil, PatchResult{}, err
	}
	var all []planned
	out := PatchResult{}
	seen := map[string]bool{}
	for i := range patches {
		p := &patches[i]
		for _, path := range []string{p.path, p.to} {
			if path != "" && seen[f.Absolute(path)] {
				return nil, out, toolroom.Errorf(toolroom.CodeInvalidArguments, "the patch names %s twice", path).WithHint("put all hunks of a file together")
			}
			seen[f.Absolute(path)] = path != ""
		}
		changes, done, err := f.planFile(p)
		if err != nil {
			return nil, out, err
		}
		all = append(all, changes...)
		out.Files = append(out.Files, done.Files...)
		out.Notes = append(out.Notes, done.Notes...)
	}
	return all, out, nil
}

func (f *files) planFile(p *filePatch) ([]planned, PatchResult, error) {
	before, info, err := f.Read(p.path, maxChange)
	exists := err == nil
	switch {
	case p.created && exists:
		return nil, PatchResult{}, toolroom.Errorf(toolroom.CodeConflict, "the patch creates %s, which exists", p.path).WithHint("patch the file as it is, or delete it first")
	case p.created && toolroom.CodeOf(err) == toolroom.CodeNotFound:
	case err != nil:
		return nil, PatchResult{}, err
	}
	after, notes, err := p.apply(string(before))
	if err != nil {
		return nil, PatchResult{}, err
	}
	main := change{path: p.path, before: before, after: []byte(after), existedBefore: exists, existsAfter: !p.deleted}
	if p.deleted {
		main.after = nil
	}
	done := Change{Path: f.Absolute(p.path), Created: p.created, Deleted: p.deleted}
	done.Added, done.Removed = countDiff(main.diff())
	changes := []planned{{main, info}}
	if p.to != "" && p.to != p.path {
		if _, err := f.Stat(p.to); err == nil {
			return nil, PatchResult{}, toolroom.Errorf(toolroom.CodeConflict, "the patch moves %s to %s, which exists", p.path, p.to)
		}
		done.MovedTo = f.Absolute(p.to)
		changes = []planned{
			{change: change{path: p.to, after: main.after, existsAfter: true}},
			{change: change{path: p.path, before: before, existedBefore: true}},
		}
	}
	return changes, PatchResult{Files: []Change{done}, Notes: notes}, nil
}

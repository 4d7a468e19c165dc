package release

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/visible"
)

// The actions of a step.
const (
	StepCreate  = "create"
	StepChange  = "change"
	StepRelease = "release"
	StepCase    = "case"
	StepNothing = "nothing"
)

// Step is one line of the plan of [Service.Sync].
type Step struct {
	Action  string `json:"action"`
	Tool    string `json:"tool"`
	Version int    `json:"version,omitempty"`
	Note    string `json:"note,omitempty"`
}

// SyncOptions are options of [Service.Sync].
type SyncOptions struct {
	// Environment is one to which the tools are released; empty releases nothing.
	Environment string
	// DryRun makes only the plan.
	DryRun bool
	// Bases are the versions, by tool, that the author knows as the newest. A newer one that
	// differs is a conflict. Of a tool that is not there the author knows the own versions, and
	// those that a sync has made: another's is a conflict.
	Bases map[string]int
	// Force is for authors who know of the conflicts.
	Force bool
}

// syncMessage is the message of the versions that a sync makes.
const syncMessage = "sync"

// Sync makes the newest versions those of the uploads, and returns what it did, or would do.
// After an error the steps so far have been done.
func (s *Service) Sync(ctx context.Context, uploads []Upload, o SyncOptions, who string) ([]Step, error) {
	plan := []Step{}
	if o.Environment != "" {
		if err := s.checkEnvironment(o.Environment); err != nil {
			return nil, err
		}
	}
	from := map[string]plannedVersion{}
	for _, u := range uploads {
		steps, err := s.syncOne(ctx, u, o, who, from)
		plan = append(plan, steps...)
		if err != nil {
			return plan, err
		}
	}
	return plan, nil
}

// rollbackNote returns a note if version was rolled back in an environment and nothing was
// released since: unchanged files must not release it again. Otherwise it returns "".
func (s *Service) rollbackNote(ctx context.Context, tool, environment string, version int) (string, error) {
	log, err := s.Store.ReleaseLog(ctx, tool, maxHistory)
	if err != nil {
		return "", err
	}
	log = slices.DeleteFunc(log, func(e Entry) bool { return e.Environment != environment })
	for i, e := range log {
		if e.Action != ActionRollback {
			break
		}
		if e.Previous == version || i+1 < len(log) && log[i+1].Canary == version {
			return fmt.Sprintf(", which was taken back from %s: %s", environment, cmp.Or(e.Reason, "by "+e.Who)), nil
		}
	}
	return "", nil
}

// plannedVersion is the version of a tool that a sync has read.
type plannedVersion struct{ file, digest string }

func (s *Service) syncOne(ctx context.Context, u Upload, o SyncOptions, who string, from map[string]plannedVersion) ([]Step, error) {
	found, err := s.Inspect(ctx, u)
	if err != nil {
		return nil, err
	}
	var steps []Step
	differs := false
	u.Bases = map[string]int{}
	for _, f := range found {
		digest, err := f.Spec.Digest()
		if err != nil {
			return nil, err
		}
		versions, err := s.Store.Versions(ctx, f.ID.String())
		if err != nil {
			return nil, err
		}
		step := Step{Action: StepNothing, Tool: f.ID.String()}
		file := filepath.Join(u.Folder, filepath.FromSlash(f.Spec.File))
		if other, twice := from[step.Tool]; twice && other.digest == digest {
			continue // a file with several tools is pulled into a folder for each
		} else if twice {
			return nil, toolroom.Errorf(toolroom.CodeConflict, "%s and %s are both the tool %s, and differ", other.file, file, step.Tool).
				WithHint("copy the one that is right over the other, give one of the tools another name, or remove one of them")
		}
		from[step.Tool] = plannedVersion{file, digest}
		switch {
		case len(versions) == 0:
			step.Action, step.Version = StepCreate, 1
			u.Bases[step.Tool] = 0
		case versions[0].Digest != digest:
			if err := s.checkBase(o, versions[0], &f.Spec, who); err != nil {
				return nil, err
			}
			step.Action, step.Version = StepChange, versions[0].Number+1
			u.Bases[step.Tool] = versions[0].Number
		default:
			step.Version = versions[0].Number
			if checkWithdrawn(versions[0]) != nil {
				step.Note = ", which is deprecated: " + versions[0].Reason
			}
		}
		differs = differs || step.Action != StepNothing
		if o.Environment != "" && step.Note == "" {
			r, err := s.currentRelease(ctx, step.Tool, o.Environment)
			if err != nil {
				return nil, err
			}
			if r.Version != step.Version && !o.Force {
				if step.Note, err = s.rollbackNote(ctx, step.Tool, o.Environment, step.Version); err != nil {
					return nil, err
				}
			}
			if r.Version != step.Version && step.Note == "" {
				if step.Action != StepNothing {
					steps = append(steps, step)
				}
				step = Step{Action: StepRelease, Tool: step.Tool, Version: step.Version, Note: " to " + o.Environment}
			}
		}
		steps = append(steps, step)
	}
	cases, err := s.syncCases(ctx, found, &u)
	if err != nil {
		return nil, err
	}
	for _, c := range cases {
		steps = append(steps, c.Step)
	}
	if o.DryRun {
		return steps, nil
	}
	if differs {
		u.Message = cmp.Or(u.Message, syncMessage)
		if _, err := s.Push(ctx, u, who); err != nil {
			return nil, err
		}
	}
	for _, c := range cases {
		if err := c.apply(ctx, s, who); err != nil {
			return steps, err
		}
	}
	for i, step := range steps {
		if step.Action != StepRelease {
			continue
		}
		if _, err := s.Release(ctx, Order{Tool: step.Tool, Version: step.Version, Environment: o.Environment, Reason: "sync"}, who); err != nil {
			return steps[:i], err
		}
	}
	return steps, nil
}

// Diff describes the difference of two versions: of their files as unified diffs, and of
// the rest by field. Invisible characters of a definition from outside are spelled out.
func Diff(before, after *Version) string {
	var out strings.Builder
	if after.Spec.Source != "" {
		for _, c := range Changes(&before.Spec, &after.Spec) {
			fmt.Fprintf(&out, "%s\n", c.Path)
			for _, side := range []struct{ sign, text string }{{"-", c.Old}, {"+", c.New}} {
				if side.text != "" {
					fmt.Fprintf(&out, "%s %s\n", side.sign, visible.Text(side.text))
				}
			}
		}
		return out.String() + describeBreaks(before, after)
	}
	names := map[string]bool{}
	for _, v := range []*Version{before, after} {
		for name := range v.Spec.Files {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := fmt.Sprintf("%s@%d/%s", before.Tool, before.Number, name), fmt.Sprintf("%s@%d/%s", after.Tool, after.Number, name)
		out.Write(diff.Diff(a, []byte(before.Spec.Files[name]), b, []byte(after.Spec.Files[name])))
	}
	for _, field := range []struct{ name, a, b string }{
		{"description", before.Spec.Description, after.Spec.Description},
		{"input schema", string(before.Spec.InputSchema), string(after.Spec.InputSchema)},
		{"output schema", string(before.Spec.OutputSchema), string(after.Spec.OutputSchema)},
		{"packages", strings.Join(before.Spec.Requires, ", "), strings.Join(after.Spec.Requires, ", ")},
		{"lock", before.Spec.LockDigest(), after.Spec.LockDigest()},
	} {
		if field.a != field.b {
			fmt.Fprintf(&out, "%s:\n- %s\n+ %s\n", field.name, field.a, field.b)
		}
	}
	return out.String() + describeBreaks(before, after)
}

func describeBreaks(before, after *Version) string {
	breaks := Breaks(&before.Spec, &after.Spec)
	if len(breaks) == 0 {
		return ""
	}
	return "breaks callers: " + strings.Join(breaks, "; ") + "\n"
}

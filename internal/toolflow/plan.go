package toolflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/release"
)

// The actions of a step.
const (
	StepVersion   = "version"
	StepRelease   = "release"
	StepDeprecate = "deprecate"
	StepCase      = "case"
	StepRename    = "rename"
	StepNothing   = "nothing"
	StepSkip      = "skip"
)

// Step is one line of the plan of an import.
type Step struct {
	Action string `json:"action"`
	// From is what it is in ToolFlow, such as "double version 2", and Tool what it is here.
	From    string `json:"from"`
	Tool    string `json:"tool,omitempty"`
	Version int    `json:"version,omitempty"`
	Note    string `json:"note,omitempty"`
}

const reason = "import from ToolFlow"

// Import stores the tools as versions, releases and cases, and returns what it did, or with
// dryRun would do. What cannot be imported is a step with the reason, and the rest goes in.
// What an earlier import stored is not stored again.
func Import(ctx context.Context, s *release.Service, tools []Tool, who string, dryRun bool) ([]Step, error) {
	heads, err := s.Store.VersionedTools(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{}
	for _, h := range heads {
		taken[h.Tool] = true
	}
	p := &plan{s: s, who: who, dry: dryRun, taken: taken}
	for i := range tools {
		if err := p.tool(ctx, &tools[i]); err != nil {
			return p.steps, err
		}
	}
	return p.steps, nil
}

type plan struct {
	s     *release.Service
	who   string
	dry   bool
	taken map[string]bool
	steps []Step
}

func (p *plan) step(s Step) { p.steps = append(p.steps, s) }

func (p *plan) skip(from string, err error) {
	p.step(Step{Action: StepSkip, From: from, Note: err.Error()})
}

// tool imports one tool.
func (p *plan) tool(ctx context.Context, t *Tool) error {
	if len(t.Versions) == 0 {
		p.step(Step{Action: StepSkip, From: t.ID, Note: "it has no versions"})
		return nil
	}
	name, known, err := p.name(ctx, t)
	if err != nil {
		return err
	}
	id := namespace + name
	p.taken[id] = true
	if name != t.ID {
		p.step(Step{Action: StepRename, From: t.ID, Tool: id, Note: "the name is taken, or cannot be that of a tool here"})
	}
	numbers := map[int]int{}
	newest := 0
	for _, n := range known {
		newest = max(newest, n)
	}
	for i := range t.Versions {
		v := &t.Versions[i]
		from := fmt.Sprintf("%s version %d", t.ID, v.Number)
		number, made, err := p.version(ctx, t, v, name, known, newest+1)
		if err != nil {
			if p.skip(from, err); ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		numbers[v.Number], newest = number, max(newest, number)
		step := Step{Action: StepVersion, From: from, Tool: id, Version: number}
		if !made {
			step.Action = StepNothing
		}
		if UsesRequests(v.Code) {
			step.Note = "it uses requests: declare the hosts in egress of tool.yaml, or its calls have no network"
		}
		p.step(step)
	}
	if err := p.release(ctx, t, id, numbers); err != nil {
		return err
	}
	return p.cases(ctx, t, id, numbers)
}

// name returns the name of a tool here, and the versions that an earlier import stored, by
// digest.
func (p *plan) name(ctx context.Context, t *Tool) (string, map[string]int, error) {
	known := map[string]int{}
	var failed error
	name := Name(t.ID, func(name string) bool {
		id := namespace + name
		if !p.taken[id] {
			return false
		}
		versions, err := p.s.Store.Versions(ctx, id)
		if failed = cmp.Or(failed, err); err != nil || len(versions) == 0 || versions[0].Spec.Files[CodeFile] == "" || !strings.HasPrefix(versions[len(versions)-1].Message, originPrefix(t)) {
			return err == nil
		}
		for _, v := range versions {
			known[v.Digest] = max(known[v.Digest], v.Number)
		}
		return false
	})
	return name, known, failed
}

// origin is the message of a version: it says where it is from, so that the next import finds
// it again.
func origin(t *Tool, v *Version) string {
	text := originPrefix(t) + strconv.Itoa(v.Number)
	if v.Message != "" {
		text += ": " + v.Message
	}
	return text
}

func originPrefix(t *Tool) string { return "ToolFlow " + t.ID + " version " }

// version stores one version and returns its number here.
func (p *plan) version(ctx context.Context, t *Tool, v *Version, name string, known map[string]int, next int) (number int, made bool, err error) {
	u, err := v.Upload(name, t.Description)
	if err != nil {
		return 0, false, err
	}
	u.Message = origin(t, v)
	found, err := p.s.Inspect(ctx, u)
	if err != nil {
		return 0, false, err
	}
	digest, err := found[0].Spec.Digest()
	if err != nil {
		return 0, false, err
	}
	if n := known[digest]; n != 0 {
		return n, false, nil
	}
	known[digest] = next
	if p.dry {
		return next, true, nil
	}
	pushed, err := p.s.Push(ctx, u, p.who)
	err = Explain(err)
	if err != nil {
		delete(known, digest)
		return 0, false, err
	}
	known[digest] = pushed[0].Number
	return pushed[0].Number, true, nil
}

// release releases what ToolFlow serves, and deprecates what is deprecated there.
func (p *plan) release(ctx context.Context, t *Tool, id string, numbers map[int]int) error {
	released := map[int]bool{}
	for _, one := range []struct {
		environment string
		version     int
	}{{release.Test, t.Test}, {release.Prod, t.Prod}} {
		if one.version == 0 {
			continue
		}
		from := fmt.Sprintf("%s in %s", t.ID, one.environment)
		number := numbers[one.version]
		if number == 0 {
			p.step(Step{Action: StepSkip, From: from, Note: fmt.Sprintf("version %d could not be imported", one.version)})
			continue
		}
		released[number] = true
		last, err := p.lastEntry(ctx, id, one.environment)
		if err != nil {
			return err
		}
		switch {
		case last.Tool == "":
		case last.Reason == reason && last.Version == number:
			p.step(Step{Action: StepNothing, From: from, Tool: id, Version: number})
			continue
		case last.Reason != reason: // somebody has changed it since the last import
			p.step(Step{Action: StepNothing, From: from, Tool: id, Version: number, Note: one.environment + " has another release since the last import, which stays"})
			continue
		}
		if !p.dry {
			o := release.Order{Tool: id, Version: number, Environment: one.environment, Force: true, Reason: reason}
			if _, err := p.s.Release(ctx, o, p.who); err != nil {
				if p.skip(from, err); ctx.Err() != nil {
					return ctx.Err()
				}
				continue
			}
		}
		p.step(Step{Action: StepRelease, From: from, Tool: id, Version: number, Note: "to " + one.environment})
	}
	for _, v := range t.Versions {
		number := numbers[v.Number]
		if v.Status != string(release.StatusDeprecated) || number == 0 || released[number] {
			continue
		}
		if known, err := p.s.Store.Version(ctx, id, number); err == nil && known.Status == release.StatusDeprecated && known.Reason != "" {
			continue // by an earlier import
		}
		from := fmt.Sprintf("%s version %d", t.ID, v.Number)
		if !p.dry {
			if err := p.s.Deprecate(ctx, id, number, "deprecated in ToolFlow", false, p.who); err != nil {
				if p.skip(from, err); ctx.Err() != nil {
					return ctx.Err()
				}
				continue
			}
		}
		p.step(Step{Action: StepDeprecate, From: from, Tool: id, Version: number})
	}
	return nil
}

// lastEntry returns the newest entry in the log of an environment.
func (p *plan) lastEntry(ctx context.Context, id, environment string) (release.Entry, error) {
	log, err := p.s.Store.ReleaseLog(ctx, id, -1)
	for _, e := range log { // the newest first
		if e.Environment == environment {
			return e, err
		}
	}
	return release.Entry{}, err
}

// cases saves the test runs that give the same value here.
func (p *plan) cases(ctx context.Context, t *Tool, id string, numbers map[int]int) error {
	for _, run := range t.Runs {
		number := numbers[run.Version]
		if number == 0 {
			continue
		}
		c := &release.Case{Tool: id, Name: "run " + run.ID, Arguments: run.Input, Expect: run.Output, Author: p.who}
		step := Step{Action: StepCase, From: "test run " + run.ID, Tool: id, Version: number, Note: c.Name}
		switch {
		case p.dry:
			step.Note += ", if it gives the same value here"
		case !p.givesSameValue(ctx, id, number, &run):
			step.Action, step.Note = StepSkip, "its value is another one here"
		default:
			if err := p.s.AddCase(ctx, c); err != nil {
				return err
			}
		}
		p.step(step)
	}
	return ctx.Err()
}

// givesSameValue reports whether a run gives the same value here.
func (p *plan) givesSameValue(ctx context.Context, id string, number int, r *Run) bool {
	// ToolFlow's code calls no tools. The budget is empty, so that unreviewed code can call none
	// here either.
	result := p.s.Try(ctx, id, number, toolroom.Call{Arguments: r.Input, MaxOutput: -1, NoWait: true, Budget: new(toolroom.Budget)})
	if result.Error != nil {
		return false
	}
	value := result.Value
	if len(value) == 0 {
		value, _ = json.Marshal(result.Text()) // a string can always be encoded
	}
	a, aerr := jsonx.Canonical(value)
	b, berr := jsonx.Canonical(r.Output)
	return aerr == nil && berr == nil && bytes.Equal(a, b)
}

package release

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
)

// CasesFile is the name of the file in a tool's folder that has its saved cases. It is no part
// of the versions.
const CasesFile = "tool.cases.json"

// WriteCases returns the text of [CasesFile].
func WriteCases(cases []*Case) ([]byte, error) {
	plain := make([]Case, len(cases))
	for i, c := range cases {
		plain[i] = *c
		plain[i].Tool = ""
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(plain)
	return out.Bytes(), err
}

// ReadCases reads the text of [CasesFile]. A case of a folder with several tools names its
// tool.
func ReadCases(text []byte) ([]*Case, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	cases := []*Case{}
	if err := d.Decode(&cases); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: %w", CasesFile, err).WithHint("write a list of cases with name, arguments and expect, schema, assert or error")
	}
	for _, c := range cases {
		if err := c.prepare(); err != nil {
			return nil, fmt.Errorf("%s: %w", CasesFile, err)
		}
	}
	return cases, nil
}

// caseStep is a change of a case.
type caseStep struct {
	Step
	put    *Case
	remove string
}

func (c *caseStep) apply(ctx context.Context, s *Service, who string) error {
	if c.put == nil {
		return s.Store.RemoveCase(ctx, c.Tool, c.remove)
	}
	c.put.Author = cmp.Or(c.put.Author, who)
	return s.AddCase(ctx, c.put)
}

// casesByTool returns the cases of an upload's [CasesFile] by tool. Of a tool without an entry
// the file says nothing.
//
// Code with several tools is pulled into a folder for each, whose file has the cases of the tool
// that the folder is named after. So such a file says nothing of the other tools, unless a case
// names one. Every other file has the cases of all tools of its folder.
func casesByTool(u *Upload, found []Found) (map[string][]*Case, error) {
	named := func(name string) *Found {
		i := slices.IndexFunc(found, func(f Found) bool { return name != "" && (name == f.ID.String() || name == f.ID.Name) })
		if i < 0 {
			return nil
		}
		return &found[i]
	}
	own := named(u.Own)
	if len(found) == 1 {
		own = &found[0]
	}
	byTool := map[string][]*Case{}
	for i := range found {
		if own == nil || own == &found[i] {
			byTool[found[i].ID.String()] = nil
		}
	}
	for _, c := range u.Cases {
		f := named(c.Tool)
		if c.Tool == "" {
			f = own
		}
		if f == nil && c.Tool == "" {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: the folder has several tools, and the case %q names none of them", CasesFile, c.Name).
				WithHint("write \"tool\": %q, or another of its tools, into the case", found[0].ID.String())
		}
		if f != nil {
			byTool[f.ID.String()] = append(byTool[f.ID.String()], c)
		}
	}
	return byTool, nil
}

// syncCases returns what makes the saved cases of the tools those of the file. Cases in the
// code are left alone, since they are saved when the code is pushed. Without a file, all are.
func (s *Service) syncCases(ctx context.Context, found []Found, u *Upload) ([]caseStep, error) {
	if u.Cases == nil {
		return nil, nil
	}
	byTool, err := casesByTool(u, found)
	if err != nil {
		return nil, err
	}
	var steps []caseStep
	for _, f := range found {
		tool := f.ID.String()
		file, said := byTool[tool]
		if !said {
			continue
		}
		saved, err := s.Store.Cases(ctx, tool)
		if err != nil {
			return nil, err
		}
		inCode := func(name string) bool {
			return slices.ContainsFunc(f.Cases, func(c *Case) bool { return c.Name == name })
		}
		var names []string
		for _, c := range file {
			if inCode(c.Name) {
				continue
			}
			names = append(names, c.Name)
			i := slices.IndexFunc(saved, func(o *Case) bool { return o.Name == c.Name })
			if i >= 0 && sameCase(saved[i], c) {
				continue
			}
			one := *c
			one.Tool = tool
			steps = append(steps, caseStep{Step: Step{Action: StepCase, Tool: tool, Note: fmt.Sprintf(" save %q", c.Name)}, put: &one})
		}
		for _, c := range saved {
			if !slices.Contains(names, c.Name) && !inCode(c.Name) {
				steps = append(steps, caseStep{Step: Step{Action: StepCase, Tool: tool, Note: fmt.Sprintf(" remove %q", c.Name)}, remove: c.Name})
			}
		}
	}
	return steps, nil
}

// HasCases reports whether all cases of a text of [CasesFile] are saved as they are there.
func HasCases(saved []*Case, text []byte) bool {
	cases, err := ReadCases(text)
	return err == nil && !slices.ContainsFunc(cases, func(c *Case) bool {
		return !slices.ContainsFunc(saved, func(o *Case) bool { return o.Name == c.Name && sameCase(o, c) })
	})
}

// sameCase reports whether two cases say the same, whoever wrote them.
func sameCase(a, b *Case) bool {
	text := func(c *Case) []byte {
		plain := Case{Name: c.Name, Arguments: c.Arguments, Expect: c.Expect, ExpectHash: c.ExpectHash, Schema: c.Schema, Assert: c.Assert, Error: c.Error, Fakes: c.Fakes}
		out, _ := json.Marshal(plain) // it was read from JSON
		return out
	}
	return sameJSON(text(a), text(b))
}

// checkBase returns a conflict if there is a newer version than the author knows.
func (s *Service) checkBase(o SyncOptions, newest *Version, spec *Spec, who string) error {
	base, known := o.Bases[newest.Tool]
	if o.Force || known && newest.Number <= base || !known && (newest.Author == who || newest.Message == syncMessage) {
		return nil
	}
	mine := &Version{Tool: newest.Tool, Number: newest.Number + 1, Spec: *spec}
	if !known {
		e := toolroom.Errorf(toolroom.CodeConflict, "%s has version %d by %s, which no sync has made, and the folder does not say that it knows it", newest.Tool, newest.Number, newest.Author)
		e.Details = map[string]any{"newest": newest.Number}
		e = e.WithHint("look at the difference, and take over what you need").WithCLIHint("write the room's tools to another folder: toolroom tool pull OTHER; or sync with --force")
		return conflict(e, Diff(newest, mine))
	}
	e := toolroom.Errorf(toolroom.CodeConflict, "%s has a newer version %d by %s; yours is based on version %d", newest.Tool, newest.Number, newest.Author, base)
	e.Details = map[string]any{"newest": newest.Number, "base": base}
	e = e.WithHint("look at the difference, and take over what you need").WithCLIHint("see what they changed: toolroom tool diff %s %d %d; then take it over, or sync with --force", newest.Tool, base, newest.Number)
	return conflict(e, Diff(newest, mine))
}

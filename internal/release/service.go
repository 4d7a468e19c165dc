package release

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
)

// Upload is code that an author pushes.
type Upload struct {
	// Files are the texts by relative name; File is the one with the functions.
	Files map[string]string `json:"files"`
	File  string            `json:"file"`
	// Namespace of the tools; empty means that of the code's header, or fn.
	Namespace string `json:"namespace,omitempty"`
	Message   string `json:"message,omitempty"`
	// Base is the version that the author started from, as the newest; negative means that
	// any is right.
	Base int `json:"base,omitempty"`
	// Wheels is a folder of wheels to take dependencies from, and Tarballs one of npm
	// packages, without a network.
	Wheels string `json:"-"`
	// Bases are like Base, by tool, and count before it.
	Bases map[string]int `json:"-"`
	// Cases are those of [CasesFile]; nil if the upload has none.
	Cases    []*Case `json:"-"`
	Tarballs string  `json:"-"`
	// Folder is where the files were read, for messages; it may be empty.
	Folder string `json:"-"`
	// Own is the name of the tool that the folder of the upload is named after, if there is one:
	// that is the tool of the cases that name none.
	Own string `json:"-"`
	// Only, if not empty, is the name of the one tool that the code must have.
	Only string `json:"-"`
}

// Found is a tool in an upload.
type Found struct {
	ID    toolroom.ID
	Spec  Spec
	Cases []*Case
}

// Options are what a Service needs. All are required but Now.
type Options struct {
	Store Store
	// Inspect reads the tools of an upload from its code, in a sandbox.
	Inspect func(context.Context, Upload) ([]Found, error)
	// Check returns an error if no tool may have the id.
	Check func(toolroom.ID) error
	// Run runs a call.
	Run func(context.Context, toolroom.Call) *toolroom.Result
	// Fake makes calls that tools make with the returned context be answered by answer.
	Fake func(ctx context.Context, answer func(*toolroom.Call) *toolroom.Result) context.Context
	// Past returns the recorded arguments of the calls of a tool since a time, by caller.
	Past func(ctx context.Context, tool string, since time.Time) (map[string][]json.RawMessage, error)
	// Observe returns the newest calls of a version in an environment since a time, oldest
	// first. If they are those of the base, only the last 1,000 are needed.
	Observe func(ctx context.Context, tool, environment string, version int, since time.Time, base bool) ([]Observation, error)
	// Record keeps a receipt of what a person or Toolroom did to a tool; refused is why it
	// was not done. It may be nil.
	Record func(ctx context.Context, e Entry, v *Version, refused error)
	// Offered returns what a source offers of a tool now, or ok false if that is not known.
	// Look lists the source of a namespace again. Both are nil if no source is versioned.
	Offered func(tool string) (o Offered, ok bool)
	Look    func(ctx context.Context, namespace string) error
	// CaseOf records a case from a call, with the answers that its own calls got, and returns
	// the calls whose answers are not recorded.
	CaseOf func(ctx context.Context, call string) (c *Case, unrecorded []string, err error)
	// Changed is called after every change of a version or release.
	Changed func(context.Context) error
	Rules   func() Rules
	Now     func() time.Time
}

// Rules are the configured rules of releases.
type Rules struct {
	// Environments are those that exist besides prod and test.
	Environments []string
	// Demoted is the status of a version that is no longer active: deprecated, or draft.
	Demoted Status
	// Cases and Compatible switch the gates of environments other than test on, and
	// SecondPerson requires that another person than the author releases.
	Cases, Compatible, SecondPerson bool
	// Automatic takes a version back that is worse than the one before with at least this
	// Confidence, for the time Watched after its release. Slower is the factor by which the
	// median run time must have grown to count as worse.
	Automatic          bool
	Confidence, Slower float64
	Watched            time.Duration
}

// Service pushes, tests and releases versions. It is safe for concurrent use.
type Service struct{ Options }

// New returns a Service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Service{o}
}

// Pushed is the outcome of a push for one tool.
type Pushed struct {
	*Version
	// Created is false if the newest version has the same digest already.
	Created bool `json:"created"`
	Cases   int  `json:"cases,omitempty"`
}

// Push inspects code and stores a draft version of each of its tools.
func (s *Service) Push(ctx context.Context, u Upload, who string) ([]Pushed, error) {
	found, err := s.Inspect(ctx, u)
	if err != nil {
		return nil, err
	}
	if u.Only != "" && (len(found) != 1 || found[0].ID.Name != u.Only) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the code has other functions than %s", u.Only).WithHint("export one function, of that name")
	}
	for _, f := range found {
		if err := s.Check(f.ID); err != nil {
			return nil, err
		}
		for _, c := range f.Cases {
			if err := c.prepare(); err != nil {
				return nil, err
			}
		}
	}
	out, err := s.push(ctx, found, u, who)
	if err != nil && len(out) == 0 {
		return nil, err
	}
	return out, cmp.Or(err, s.Changed(ctx)) // also of what was stored before the mistake
}

// push stores what an upload has, and returns what was stored.
func (s *Service) push(ctx context.Context, found []Found, u Upload, who string) (out []Pushed, err error) {
	for _, f := range found {
		digest, err := f.Spec.Digest()
		if err != nil {
			return out, err
		}
		v := &Version{
			Tool: f.ID.String(), Digest: digest, Status: StatusDraft, Message: u.Message, Author: who, Created: s.Now().UTC(), Spec: f.Spec,
		}
		base := u.Base
		if b, ok := u.Bases[v.Tool]; ok {
			base = b
		}
		stored, created, err := s.Store.PutVersion(ctx, v, base)
		if err != nil {
			return out, s.withDiff(ctx, err, v)
		}
		if created { // before its cases, which may not be stored
			s.record(ctx, Entry{Time: v.Created, Who: who, Action: ActionPush, Tool: v.Tool, Version: stored.Number, Reason: u.Message}, stored, nil)
		}
		out = append(out, Pushed{stored, created, 0})
		for _, c := range f.Cases {
			c.Tool, c.Author, c.Created = v.Tool, who, v.Created
			if err := s.AddCase(ctx, c); err != nil {
				return out, err
			}
			out[len(out)-1].Cases++
		}
	}
	return out, nil
}

// withDiff adds the difference of the newest version and of v to an error that says that
// another author was first.
func (s *Service) withDiff(ctx context.Context, err error, v *Version) error {
	e := (*toolroom.Error)(nil)
	if !errors.As(err, &e) || e.Code != toolroom.CodeConflict {
		return err
	}
	if newest, pickErr := s.Pick(ctx, v.Tool, 0); pickErr == nil {
		mine := *v
		mine.Number = newest.Number + 1
		return conflict(e, Diff(newest, &mine))
	}
	return e
}

// Conflict is the error of an author who was second, with the difference of the newest
// version and the author's.
type Conflict struct {
	err  *toolroom.Error
	Diff string
}

func (c *Conflict) Error() string { return c.err.Error() }

// Unwrap returns the error without the difference.
func (c *Conflict) Unwrap() error { return c.err }

func conflict(e *toolroom.Error, diff string) error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["diff"] = diff // for those who get the error as JSON
	return &Conflict{e, diff}
}

// Find returns the id of a versioned tool for a spelling, with the version that the
// spelling names, or zero.
func (s *Service) Find(ctx context.Context, spelling string) (tool string, number int, err error) {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return "", 0, err
	}
	matches, err := s.matchingTools(ctx, readings)
	if err != nil {
		return "", 0, err
	}
	switch len(matches) {
	case 0:
		e := toolroom.Errorf(toolroom.CodeToolNotFound, "there is no versioned tool %q", spelling)
		if near := s.nearestTool(ctx, readings); near != "" {
			return "", 0, e.WithHint("did you mean %s?", near)
		}
		return "", 0, e.WithCLIHint("list them: toolroom tool list; or push one: toolroom tool push FILE")
	case 1:
		number, err = parseNumber(readings[0].Version)
		return matches[0], number, err
	}
	e := toolroom.Errorf(toolroom.CodeAmbiguousTool, "%q can mean %v", spelling, matches)
	return "", 0, e.WithHint("write the whole id, for example %s", matches[0])
}

// nearestTool returns the versioned function whose name is nearly that of a reading, or "".
func (s *Service) nearestTool(ctx context.Context, readings []toolroom.ID) string {
	heads, err := s.Store.VersionedTools(ctx)
	if err != nil {
		return "" // the error says that there is no such tool
	}
	for _, r := range readings {
		var names []string
		ids := map[string]string{}
		for _, h := range heads {
			id, err := toolroom.ParseID(h.Tool)
			if err == nil && (r.Namespace == "" || r.Namespace == id.Namespace) && ids[id.Name] == "" {
				names = append(names, id.Name)
				ids[id.Name] = h.Tool
			}
		}
		if near, ok := nearest.Of(r.Name, names); ok {
			return ids[near]
		}
	}
	return ""
}

// matchingTools returns the versioned tools that one of the readings means. A source that may have
// one that has never been listed is listed.
func (s *Service) matchingTools(ctx context.Context, readings []toolroom.ID) ([]string, error) {
	for again := true; ; again = false {
		heads, err := s.Store.VersionedTools(ctx)
		if err != nil {
			return nil, err
		}
		all := make([]string, len(heads))
		for i, h := range heads {
			all[i] = h.Tool
		}
		if found := matchTools(readings, all); len(found) > 0 || !again || s.Look == nil {
			return found, nil
		}
		for _, r := range readings {
			if r.Namespace != "" {
				_ = s.Look(ctx, r.Namespace) // the error says that there is no such tool
			}
		}
	}
}

// matchTools returns the tools that one of the readings means.
func matchTools(readings []toolroom.ID, tools []string) []string {
	var matches []string
	for _, r := range readings {
		for _, tool := range tools {
			id, err := toolroom.ParseID(tool)
			if err == nil && id.Name == r.Name && (r.Namespace == "" || r.Namespace == id.Namespace) && !slices.Contains(matches, tool) {
				matches = append(matches, tool)
			}
		}
	}
	return matches
}

func parseNumber(v toolroom.Version) (int, error) {
	if v == "" {
		return 0, nil
	}
	var n int
	if _, err := fmt.Sscanf(string(v)+"|", "%d|", &n); err != nil || n < 1 {
		return 0, toolroom.Errorf(toolroom.CodeInvalidID, "%q is not a version: versions are numbers from 1", v)
	}
	return n, nil
}

// Pick returns a version of a tool: of that number, or the newest if it is zero.
func (s *Service) Pick(ctx context.Context, tool string, number int) (*Version, error) {
	if number > 0 {
		return s.Store.Version(ctx, tool, number)
	}
	all, err := s.Store.Versions(ctx, tool)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "%s has no versions", tool).WithCLIHint("push one: toolroom tool push FILE")
	}
	return all[0], nil
}

// VersionsToCompare returns the two versions to compare. If to is zero, it is the version that the
// source offers or else the newest. If from is zero, it is the served version of a tool from a
// source, and for a function the version before to.
func (s *Service) VersionsToCompare(ctx context.Context, tool string, from, to int) (before, after *Version, err error) {
	newest, err := s.Pick(ctx, tool, 0)
	if err != nil {
		return nil, nil, err
	}
	if newest.Spec.Source != "" && s.Offered != nil {
		if err := s.Look(ctx, newest.Spec.Source); err != nil {
			return nil, nil, err
		}
		o, _ := s.Offered(tool)
		if to == 0 {
			to = o.Version
		}
		if from == 0 && o.Served != to {
			from = o.Served
		}
	}
	if after, err = s.Pick(ctx, tool, to); err != nil {
		return nil, nil, err
	}
	if from == 0 {
		from = after.Number - 1
	}
	if from < 1 {
		return nil, nil, toolroom.Errorf(toolroom.CodeNotFound, "%s has no version before %d", tool, after.Number)
	}
	before, err = s.Pick(ctx, tool, from)
	return before, after, err
}

// Environments returns all environments.
func (s *Service) Environments() []string {
	return append([]string{Prod, Test}, s.Rules().Environments...)
}

func (s *Service) checkEnvironment(name string) error {
	if all := s.Environments(); !slices.Contains(all, name) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no environment %q: there are %s", name, strings.Join(all, ", ")).
			WithHint("add it to releases.environments in toolroom.yaml")
	}
	return nil
}

func (s *Service) record(ctx context.Context, e Entry, v *Version, refused error) {
	if s.Record != nil {
		s.Record(ctx, e, v, refused)
	}
}

// Order asks for a release.
type Order struct {
	Tool string `json:"tool"`
	// Version is the version to release; zero means the newest.
	Version     int    `json:"version,omitempty"`
	Environment string `json:"environment,omitempty"`
	// The rule releases the version as a canary, beside the one that is served. If it is
	// empty, all callers get it.
	CanaryRule
	// Force releases in spite of gates that refuse. Reason is kept in the log.
	Force  bool   `json:"force,omitempty"`
	Reason string `json:"reason,omitempty"`

	action Action
}

// Moved is the outcome of a release or rollback.
type Moved struct {
	Release
	Previous int      `json:"previous"`
	Forced   []string `json:"forced,omitempty"`
	// Quarantined is why the tool cannot be called now, although the version is released.
	Quarantined string `json:"quarantined,omitempty"`
}

// checkWithdrawn returns an error if a person has deprecated a version. One that a later
// release has replaced may be served again.
func checkWithdrawn(v *Version) error {
	if v.Status != StatusDeprecated || v.Reason == "" {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeConflict, "version %d of %s is deprecated: %s", v.Number, v.Tool, v.Reason).
		WithHint("choose another version").WithCLIHint("restore it: toolroom tool deprecate %s@%d --undo", v.Tool, v.Number)
}

// Release makes an environment serve a version.
func (s *Service) Release(ctx context.Context, o Order, who string) (Moved, error) {
	done, err := s.ReleaseAll(ctx, []Order{o}, who)
	if len(done) == 0 {
		return Moved{}, err
	}
	return done[0], err
}

// ReleaseAll releases one version after the other, up to the first that fails, and returns
// those that were released. They are served together, once it has ended.
func (s *Service) ReleaseAll(ctx context.Context, orders []Order, who string) ([]Moved, error) {
	var done []Moved
	var failed error
	for _, o := range orders {
		moved, err := s.release(ctx, o, who)
		if err != nil {
			failed = err
			break
		}
		done = append(done, moved)
	}
	return done, errors.Join(failed, s.applyMoves(ctx, done))
}

// release records that an environment serves a version.
func (s *Service) release(ctx context.Context, o Order, who string) (Moved, error) {
	o.Environment = cmp.Or(o.Environment, Prod)
	if err := s.checkEnvironment(o.Environment); err != nil {
		return Moved{}, err
	}
	if o.Weight < 0 || o.Weight > 100 {
		return Moved{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the weight is %d: it is a percentage from 1 to 100", o.Weight)
	}
	if o.Callers != nil && len(o.Callers) == 0 || slices.ContainsFunc(o.Callers, func(c string) bool { return strings.TrimSpace(c) == "" }) {
		return Moved{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "callers names nobody").
			WithHint("name subjects, or group:NAME; leave callers out to release to all")
	}
	v, err := s.Pick(ctx, o.Tool, o.Version)
	if err != nil {
		return Moved{}, err
	}
	if o.Version == 0 && v.Spec.Source != "" {
		// A server that is asked again may offer what nobody has looked at.
		return Moved{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the source %s may offer another definition of %s by now: name the version that you have looked at", v.Spec.Source, o.Tool).
			WithCLIHint("toolroom tool diff %s says which it is", o.Tool)
	}
	if err := checkWithdrawn(v); err != nil {
		return Moved{}, err
	}
	if name := v.Spec.Source; name != "" && (o.Environment != Prod || o.Weight%100 != 0 || len(o.Callers) > 0 || o.Shadow) {
		return Moved{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is defined by the source %s, which has one definition for all: it is released to prod, and to all callers", o.Tool, name)
	}
	current, err := s.currentRelease(ctx, o.Tool, o.Environment)
	if err != nil {
		return Moved{}, err
	}
	if o.Shadow && o.Weight == 0 && len(o.Callers) == 0 {
		o.Weight = 100
	}
	canary := o.Weight > 0 && o.Weight < 100 || len(o.Callers) > 0 || o.Shadow
	switch {
	case canary && current.Version == 0:
		return Moved{}, toolroom.Errorf(toolroom.CodeConflict, "%s serves no version of %s, beside which version %d could run", o.Environment, o.Tool, v.Number).
			WithCLIHint("release it whole first: toolroom tool release %s --env %s", o.Tool, o.Environment)
	case canary && current.Version == v.Number:
		return Moved{}, toolroom.Errorf(toolroom.CodeConflict, "%s serves version %d of %s already", o.Environment, v.Number, o.Tool)
	case o.Shadow:
		if err := s.mayShadow(ctx, v, current); err != nil {
			return Moved{}, err
		}
	case current.Version == v.Number && current.Canary == 0 && !canary:
		return Moved{Release: current, Previous: current.Version}, nil // it is so already
	}
	var refused []Refusal
	if !o.Shadow { // a shadow answers nobody
		refused = s.gates(ctx, v, current, o, who)
	}
	if len(refused) > 0 && !o.Force {
		err := gateError(v, o, refused)
		e := Entry{Time: s.Now().UTC(), Who: who, Action: cmp.Or(o.action, ActionRelease), Tool: o.Tool, Environment: o.Environment, Version: v.Number, Previous: current.Version, Reason: o.Reason}
		s.record(ctx, e, v, err)
		return Moved{}, err
	}
	to := Release{Tool: o.Tool, Environment: o.Environment, Version: v.Number}
	if canary {
		to = Release{Tool: o.Tool, Environment: o.Environment, Version: current.Version, Canary: v.Number, CanaryRule: o.CanaryRule}
	}
	forced := []string{}
	for _, g := range refused {
		forced = append(forced, g.Gate)
	}
	return s.recordMove(ctx, current, to, Entry{Who: who, Action: cmp.Or(o.action, ActionRelease), Reason: o.Reason, Forced: forced})
}

// mayShadow returns an error unless a version can run beside another without effects.
func (s *Service) mayShadow(ctx context.Context, v *Version, current Release) error {
	base, err := s.Store.Version(ctx, v.Tool, current.Version)
	if err != nil {
		return err
	}
	for _, one := range []*Version{base, v} {
		if !one.Spec.ReadOnly {
			return toolroom.Errorf(toolroom.CodeConflict, "version %d of %s is not declared read-only, so it cannot run twice for one call", one.Number, v.Tool).
				WithHint("put read_only = true into the header if that is so, and push again")
		}
	}
	return nil
}

func (s *Service) currentRelease(ctx context.Context, tool, environment string) (Release, error) {
	all, err := s.Store.Releases(ctx)
	if err != nil {
		return Release{}, err
	}
	for _, r := range all {
		if r.Tool == tool && r.Environment == environment {
			return r, nil
		}
	}
	return Release{Tool: tool, Environment: environment}, nil
}

// recordMove records a release. It is served only after applyMoves.
func (s *Service) recordMove(ctx context.Context, from, to Release, e Entry) (Moved, error) {
	e.Time, e.Tool, e.Environment = s.Now().UTC(), to.Tool, to.Environment
	e.Version, e.Previous, e.Canary, e.CanaryRule = to.Version, from.Version, to.Canary, to.CanaryRule
	err := s.Store.MoveRelease(ctx, Move{From: from.Version, FromCanary: from.Canary, To: to, Demoted: cmp.Or(s.Rules().Demoted, StatusDeprecated), Entry: e})
	if err != nil {
		return Moved{}, err
	}
	// What is stored gets its receipt, even if the caller has left meanwhile.
	ctx = context.WithoutCancel(ctx)
	moved := to.Version
	if to.Canary != 0 {
		moved = to.Canary
	}
	v := &Version{Tool: to.Tool}
	if moved != 0 {
		if v, err = s.Store.Version(ctx, to.Tool, moved); err != nil {
			return Moved{}, err
		}
	}
	s.record(ctx, e, v, nil)
	return Moved{Release: to, Previous: from.Version, Forced: e.Forced}, nil
}

// applyMoves makes this process serve the recorded releases, and sets in each whether the tool is
// quarantined.
func (s *Service) applyMoves(ctx context.Context, done []Moved) error {
	if len(done) == 0 {
		return nil
	}
	if err := s.Changed(context.WithoutCancel(ctx)); err != nil || s.Offered == nil {
		return err
	}
	for i := range done {
		o, _ := s.Offered(done[i].Tool)
		done[i].Quarantined = o.Quarantined
	}
	return nil
}

// Promote releases to one environment what another one serves. A number that is not zero is
// the version that it is expected to serve.
func (s *Service) Promote(ctx context.Context, tool string, number int, from, to string, force bool, who string) (Moved, error) {
	for _, environment := range []string{from, to} {
		if err := s.checkEnvironment(environment); err != nil {
			return Moved{}, err
		}
	}
	r, err := s.currentRelease(ctx, tool, from)
	if err != nil {
		return Moved{}, err
	}
	if r.Version == 0 {
		return Moved{}, toolroom.Errorf(toolroom.CodeConflict, "%s is not released to %s, so there is nothing to promote", tool, from).
			WithCLIHint("toolroom tool release %s --env %s", tool, from)
	}
	if number != 0 && number != r.Version {
		return Moved{}, toolroom.Errorf(toolroom.CodeConflict, "%s serves version %d of %s, not %d", from, r.Version, tool, number).
			WithHint("leave the version out, or release the one that you mean").WithCLIHint("toolroom tool release %s@%d --env %s", tool, number, to)
	}
	return s.Release(ctx, Order{Tool: tool, Version: r.Version, Environment: to, Force: force, Reason: "from " + from, action: ActionPromote}, who)
}

// Rollback makes an environment serve what it served before, or the given version if it is
// not zero. Before the first release it served nothing. Rolling back a canary ends it.
func (s *Service) Rollback(ctx context.Context, tool, environment string, to int, reason, who string) (Moved, error) {
	current, err := s.requireRelease(ctx, tool, environment)
	if err != nil {
		return Moved{}, err
	}
	next := Release{Tool: tool, Environment: current.Environment, Version: current.Version}
	if current.Canary == 0 || to != 0 {
		served, err := s.servedHistory(ctx, tool, current.Environment)
		if err != nil {
			return Moved{}, err
		}
		next.Version = cmp.Or(to, previous(served))
		if next.Version != 0 {
			v, err := s.Pick(ctx, tool, next.Version)
			if err != nil {
				return Moved{}, err
			}
			if to != 0 && !slices.Contains(served, to) {
				return Moved{}, toolroom.Errorf(toolroom.CodeConflict, "%s has never served version %d of %s", current.Environment, to, tool).
					WithCLIHint("release it: toolroom tool release %s@%d --env %s", tool, to, current.Environment)
			}
			if err := checkWithdrawn(v); err != nil {
				return Moved{}, err
			}
		}
	}
	return s.moveBack(ctx, current, next, reason, who)
}

// RollbackAll makes an environment serve no version of a tool. Its versions, cases and log
// stay.
func (s *Service) RollbackAll(ctx context.Context, tool, environment, reason, who string) (Moved, error) {
	current, err := s.requireRelease(ctx, tool, environment)
	if err != nil {
		return Moved{}, err
	}
	return s.moveBack(ctx, current, Release{Tool: tool, Environment: current.Environment}, reason, who)
}

// requireRelease returns the release of a tool to an environment, prod if it is empty, or an error
// if there is none.
func (s *Service) requireRelease(ctx context.Context, tool, environment string) (Release, error) {
	environment = cmp.Or(environment, Prod)
	if err := s.checkEnvironment(environment); err != nil {
		return Release{}, err
	}
	r, err := s.currentRelease(ctx, tool, environment)
	if err == nil && r.Version == 0 {
		err = toolroom.Errorf(toolroom.CodeConflict, "%s is not released to %s, so there is nothing to roll back", tool, environment).
			WithCLIHint("see its history: toolroom tool log %s", tool)
	}
	return r, err
}

// moveBack records a rollback and makes its release the served one.
func (s *Service) moveBack(ctx context.Context, from, to Release, reason, who string) (Moved, error) {
	moved, err := s.recordMove(ctx, from, to, Entry{Who: who, Action: ActionRollback, Reason: reason})
	if err != nil {
		return Moved{}, err
	}
	done := []Moved{moved}
	err = s.applyMoves(ctx, done)
	return done[0], err
}

// servedHistory returns the versions that an environment has served, oldest first, without those
// that were rolled back; the last one is the current one.
func (s *Service) servedHistory(ctx context.Context, tool, environment string) ([]int, error) {
	log, err := s.Store.ReleaseLog(ctx, tool, maxHistory)
	if err != nil {
		return nil, err
	}
	var stack []int
	for _, e := range slices.Backward(log) {
		if e.Environment != environment || e.Version == e.Previous {
			continue // a canary began or ended
		}
		if e.Action == ActionRollback {
			stack = historyUpTo(stack, e.Version)
			continue
		}
		stack = append(stack, e.Version)
	}
	return stack, nil
}

// historyUpTo returns the part of a history up to the last use of version to before the current
// one. It is empty if to is zero, which no history contains.
func historyUpTo(served []int, to int) []int {
	for i := len(served) - 2; i >= 0; i-- {
		if served[i] == to {
			return served[:i+1]
		}
	}
	return nil
}

// maxHistory is the number of log entries in which a rollback looks for what was before.
const maxHistory = 10_000

func previous(served []int) int {
	if len(served) < 2 {
		return 0
	}
	return served[len(served)-2]
}

// Deprecate marks a version so that it is not released again; undo makes it a draft.
func (s *Service) Deprecate(ctx context.Context, tool string, number int, reason string, undo bool, who string) error {
	v, err := s.Pick(ctx, tool, number)
	if err != nil {
		return err
	}
	all, err := s.Store.Releases(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Tool == tool && (r.Version == v.Number || r.Canary == v.Number) {
			return toolroom.Errorf(toolroom.CodeConflict, "%s serves version %d of %s", r.Environment, v.Number, tool).
				WithHint("release another version first, or roll back").WithCLIHint("toolroom tool rollback %s --env %s", tool, r.Environment)
		}
	}
	e := Entry{Time: s.Now().UTC(), Who: who, Action: ActionDeprecate, Tool: tool, Version: v.Number, Reason: cmp.Or(reason, "no reason was given")}
	status := StatusDeprecated
	if undo {
		status, e.Action, e.Reason = StatusDraft, ActionRestore, ""
	}
	if err := s.Store.SetVersionStatus(ctx, tool, v.Number, status, e); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	s.record(ctx, e, v, nil)
	return s.Changed(ctx)
}

// Summary describes a versioned tool.
type Summary struct {
	Tool        string         `json:"tool"`
	Description string         `json:"description,omitempty"`
	Language    string         `json:"language"`
	Source      string         `json:"source,omitempty"` // that defines it
	Newest      int            `json:"newest"`
	Status      Status         `json:"status"`
	Reason      string         `json:"-"`        // why a person deprecated the newest version
	Released    map[string]int `json:"released"` // versions by environment
	Cases       int            `json:"cases"`
	// Offered is the version that the source offers now, and Quarantined why it cannot be
	// called, if so.
	Offered     int    `json:"offered,omitempty"`
	Quarantined string `json:"quarantined,omitempty"`
}

// Filter selects tools. Its zero value selects all functions.
type Filter struct {
	// Namespace selects the tools of a namespace, functions or not.
	Namespace string
	// Quarantined selects the tools whose definitions wait for a release.
	Quarantined bool
	// Cases selects functions, and all tools that have cases.
	Cases bool
}

// List describes versioned tools.
func (s *Service) List(ctx context.Context, f Filter) ([]Summary, error) {
	heads, err := s.Store.VersionedTools(ctx)
	if err != nil {
		return nil, err
	}
	releases, err := s.Store.Releases(ctx)
	if err != nil {
		return nil, err
	}
	released := map[string]map[string]int{}
	for _, r := range releases {
		if released[r.Tool] == nil {
			released[r.Tool] = map[string]int{}
		}
		released[r.Tool][r.Environment] = r.Version
	}
	all, err := s.Store.Cases(ctx, "")
	if err != nil {
		return nil, err
	}
	cases := map[string]int{}
	for _, c := range all {
		cases[c.Tool]++
	}
	out := []Summary{}
	for _, h := range heads {
		sum := Summary{Tool: h.Tool, Source: h.Source, Newest: h.Number, Status: h.Status, Reason: h.Reason, Released: map[string]int{}, Cases: cases[h.Tool]}
		if h.Source != "" && s.Offered != nil {
			o, _ := s.Offered(h.Tool)
			sum.Offered, sum.Quarantined = o.Version, o.Quarantined
		}
		if !f.selects(&sum) {
			continue
		}
		v, err := s.Store.Version(ctx, h.Tool, h.Number)
		if err != nil {
			return nil, err
		}
		sum.Description, sum.Language = v.Spec.Description, v.Spec.Language
		maps.Copy(sum.Released, released[h.Tool])
		out = append(out, sum)
	}
	return out, nil
}

func (f Filter) selects(sum *Summary) bool {
	switch {
	case f.Namespace != "" && !strings.HasPrefix(sum.Tool, f.Namespace+":"):
		return false
	case f.Quarantined:
		return sum.Quarantined != ""
	case f.Namespace != "":
		return true
	case f.Cases:
		return sum.Source == "" || sum.Cases > 0
	}
	return sum.Source == ""
}

// Detail is all that is known of a tool.
type Detail struct {
	Tool     string     `json:"tool"`
	Versions []*Version `json:"versions"`
	Releases []Release  `json:"releases"`
	Cases    []*Case    `json:"cases"`
	// Offered is what the source that defines the tool offers now.
	Offered *Offered `json:"offered,omitempty"`
}

// Show returns the versions, releases and cases of a tool.
func (s *Service) Show(ctx context.Context, tool string) (*Detail, error) {
	d := &Detail{Tool: tool, Releases: []Release{}}
	var err error
	if d.Versions, err = s.Store.Versions(ctx, tool); err != nil {
		return nil, err
	}
	if d.Cases, err = s.Store.Cases(ctx, tool); err != nil {
		return nil, err
	}
	all, err := s.Store.Releases(ctx)
	for _, r := range all {
		if r.Tool == tool {
			d.Releases = append(d.Releases, r)
		}
	}
	if s.Offered != nil {
		if o, ok := s.Offered(tool); ok {
			d.Offered = &o
		}
	}
	return d, err
}

// Files returns the file names of a version, in order.
func (v *Version) Files() []string { return slices.Sorted(maps.Keys(v.Spec.Files)) }

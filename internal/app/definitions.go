package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/source"
)

// trust describes how far a source is trusted.
type trust struct {
	// definitions says which changed definitions are released by themselves.
	definitions string
	// quarantine quarantines new tools until a person releases them.
	quarantine bool
	// own means that the config has the definitions itself, so that their texts are the
	// operator's.
	own bool
}

// definitions is what the sources offer of their tools now, by source.
type definitions struct {
	mu       sync.RWMutex
	tools    map[string]map[toolroom.ID]release.Offered
	compared map[string]map[toolroom.ID]compared
}

// compared is what came of the last comparison of an offered definition.
type compared struct {
	digest string // of the offered definition
	state  release.Offered
	tool   toolroom.Tool // in the catalog
	shown  bool          // or not
}

// remember records the comparisons of a source, whose offered definitions have digests.
func (d *definitions) remember(source string, digests map[toolroom.ID]string, state map[toolroom.ID]release.Offered, admitted []toolroom.Tool) {
	all := make(map[toolroom.ID]compared, len(digests))
	for id, digest := range digests {
		all[id] = compared{digest: digest, state: state[id]}
	}
	for _, t := range admitted {
		id := t.ID.Unversioned()
		if c, ok := all[id]; ok {
			c.tool, c.shown = t, true
			all[id] = c
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compared == nil {
		d.compared = map[string]map[toolroom.ID]compared{}
	}
	d.compared[source] = all
}

// last returns the last comparisons of a source.
func (d *definitions) last(source string) map[toolroom.ID]compared {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.compared[source]
}

// set replaces the state of a source and reports whether other tools are quarantined now.
func (d *definitions) set(source string, tools map[toolroom.ID]release.Offered) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	news := !maps.Equal(quarantined(d.tools[source]), quarantined(tools))
	if d.tools == nil {
		d.tools = map[string]map[toolroom.ID]release.Offered{}
	}
	d.tools[source] = tools
	return news
}

// remove forgets a source: another source or a function may have tools of the same ids.
func (d *definitions) remove(source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tools, source)
	delete(d.compared, source)
}

func quarantined(tools map[toolroom.ID]release.Offered) map[toolroom.ID]release.Offered {
	held := map[toolroom.ID]release.Offered{}
	for id, o := range tools {
		if o.Quarantined != "" {
			held[id] = o
		}
	}
	return held
}

// stale returns the sources of which other versions are served now.
func (d *definitions) stale(serving map[string]int) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var names []string
	for source, tools := range d.tools {
		for id, o := range tools {
			if o.Served != serving[id.String()] {
				names = append(names, source)
				break
			}
		}
	}
	return names
}

// count returns the number of quarantined tools of a source.
func (d *definitions) count(source string) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(quarantined(d.tools[source]))
}

// of returns what a source offers of a tool.
func (d *definitions) of(id toolroom.ID) (release.Offered, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.tools[id.Namespace][id.Unversioned()]
	return o, ok
}

// narrow denies calls of quarantined tools. Neither the released nor the offered definition
// reaches a model. Who tries an offered version gets past it.
func (d *definitions) narrow(decision policy.Decision, r policy.Request) policy.Decision {
	if decision.Effect == toolroom.VerdictDeny {
		return decision
	}
	o, _ := d.of(r.Tool.ID)
	tries := r.Call != nil && r.Call.Surface == release.SurfaceTest && r.Tool.Release != nil && r.Tool.Release.Version == o.Version
	if o.Quarantined == "" || tries {
		return decision
	}
	return decision.Then(toolroom.PolicyStep{
		Layer: "policy.definitions", Effect: toolroom.VerdictDeny, Rule: o.Quarantined,
		Hint: "a person must look at the difference and release it", CLIHint: fmt.Sprintf("see the difference, and how to release it: toolroom tool diff %s", r.Tool.ID.Unversioned()),
	})
}

// admit compares the source's tools with their released versions and returns the tools that
// may be in the catalog. Of a quarantined tool it returns the released definition. If the
// versions cannot be read or written, it returns an error too, and the caller must try again:
// definitions that have not changed since they were last compared stay as they were, and all
// others are quarantined.
func (a *App) admit(ctx context.Context, source string, by trust, tools []toolroom.Tool) ([]toolroom.Tool, error) {
	for range admitAttempts {
		admitted, raced, err := a.admitOnce(ctx, source, by, slices.Clone(tools))
		if !raced {
			return admitted, err
		}
	}
	admitted, _, err := a.admitOnce(ctx, source, by, tools)
	return admitted, err
}

// admitAttempts is how often tools are compared again because somebody else released a
// version meanwhile.
const admitAttempts = 4

// admitOnce is admit. raced means that somebody else released a version meanwhile, so that
// the comparison is out of date.
func (a *App) admitOnce(ctx context.Context, source string, by trust, tools []toolroom.Tool) (out []toolroom.Tool, raced bool, failed error) {
	known, failed := a.knownVersions(ctx, source)
	last := a.definitions.last(source)
	state, digests := map[toolroom.ID]release.Offered{}, map[toolroom.ID]string{}
	admitted := make([]toolroom.Tool, 0, len(tools))
	var offers []release.Offer
	for _, tool := range tools {
		id := tool.ID.Unversioned()
		if _, twice := state[id]; twice {
			continue // the first one counts, in the catalog too
		}
		if isOurs(&tool) {
			admitted = append(admitted, tool)
			continue
		}
		v, err := a.offeredVersion(source, &tool)
		if err != nil {
			state[id] = release.Offered{Quarantined: notCompared}
			admitted = append(admitted, tool)
			continue
		}
		digest, of := v.Digest, known[v.Tool]
		o, shown, ok, err := judged{}, tool, false, failed
		if err == nil {
			if o, err = a.judge(ctx, by, &of, v, tool); err == nil {
				shown, ok, err = a.shown(ctx, tool, &of, o.quarantined != "")
			}
		}
		if err != nil {
			failed = err
			c, seen := last[id]
			if !seen || c.digest != digest {
				c = compared{state: release.Offered{Quarantined: notCompared}, tool: tool, shown: true}
			} else {
				digests[id] = digest
			}
			state[id] = c.state
			if c.shown {
				admitted = append(admitted, c.tool)
			}
			continue
		}
		if !of.function {
			offers = append(offers, o.Offer)
		}
		state[id], digests[id] = release.Offered{Version: of.numbers[v.Digest], Served: of.served, Quarantined: o.quarantined}, digest
		if ok {
			admitted = append(admitted, shown)
		}
	}
	// Quarantine first and then show, so that the new definitions are never visible.
	news := a.definitions.set(source, maps.Clone(state)) // storeOffers changes state
	raced, err := a.storeOffers(ctx, source, offers, state, admitted)
	a.definitions.remember(source, digests, state, admitted)
	if held := len(quarantined(state)); news && held > 0 {
		a.log.Warn("tools are quarantined until a person has released their definitions", "source", source, "tools", held, "fix", "toolroom tool diff '"+source+":*'")
	}
	if failed == nil {
		failed = err
	}
	return admitted, raced, failed
}

const notCompared = "its definition cannot be compared with the released one"

// known is what the store has of a tool of a source.
type known struct {
	served   int            // by prod; zero for none
	digest   string         // of the served version
	numbers  map[string]int // newest version of each digest
	status   map[int]release.Head
	function bool // a function has the id
}

func (a *App) knownVersions(ctx context.Context, source string) (map[string]known, error) {
	heads, err := a.store.Heads(ctx, source)
	if err != nil {
		return nil, err
	}
	all := map[string]known{}
	for _, h := range heads {
		of, ok := all[h.Tool]
		if !ok {
			of = known{numbers: map[string]int{}, status: map[int]release.Head{}}
		}
		of.function = of.function || h.Source == ""
		of.numbers[h.Digest] = max(of.numbers[h.Digest], h.Number)
		of.status[h.Number] = h
		if h.Served {
			of.served, of.digest = h.Number, h.Digest
		}
		all[h.Tool] = of
	}
	return all, nil
}

func (a *App) offeredVersion(source string, tool *toolroom.Tool) (*release.Version, error) {
	spec, err := release.DefinitionOf(source, tool)
	if err != nil {
		return nil, err
	}
	digest, err := spec.Digest()
	return &release.Version{
		Tool: tool.ID.Unversioned().String(), Digest: digest, Status: release.StatusDraft, Author: "source " + source, Created: time.Now().UTC(), Spec: spec,
	}, err
}

// judged is an offer, with the reason why it is quarantined, or "".
type judged struct {
	release.Offer
	quarantined string
}

// judge decides whether an offered definition may be used. It returns an error if it cannot
// read a version.
func (a *App) judge(ctx context.Context, by trust, of *known, v *release.Version, tool toolroom.Tool) (judged, error) {
	o := judged{Offer: release.Offer{Version: v, From: of.served, Demoted: cmp.Or(a.releaseRules().Demoted, release.StatusDeprecated)}}
	pass := func() (judged, error) { o.Release = true; return o, nil }
	hold := func(format string, args ...any) (judged, error) {
		o.quarantined = fmt.Sprintf(format, args...)
		return o, nil
	}
	number, seen := of.numbers[v.Digest]
	switch {
	case of.function:
		return hold("a function has the same id")
	case of.served != 0 && of.digest == v.Digest:
		return o, nil
	case len(of.numbers) == 0 && by.quarantine:
		return hold("it is new, and new tools of %s wait for their release", v.Spec.Source)
	case len(of.numbers) == 0:
		return pass()
	case of.served == 0:
		return hold("no version of it is released")
	}
	before, err := a.store.Version(ctx, v.Tool, of.served)
	if err != nil {
		return o, err
	}
	if tool.ID.Name == catalog.GetTool && !by.quarantine && a.widens(before, v) {
		if v.Digest == of.digest {
			return o, nil
		}
		return pass()
	}
	if seen {
		back, err := a.takenBack(ctx, v.Tool, number)
		if err != nil {
			return o, err
		}
		if back || of.status[number].Reason != "" {
			return hold("version %d, which %s offers, was taken back", number, v.Spec.Source)
		}
	}
	if by.definitions == config.DefinitionsAuto || by.definitions == config.DefinitionsAdditive && release.Additive(&before.Spec, &v.Spec) {
		if f := newFinding(&before.Spec, &tool); f != "" && !by.own {
			return hold("its definition differs from version %d, which is released, and has what people do not see: %s", of.served, f)
		}
		return pass()
	}
	return hold("its definition differs from version %d, which is released", of.served)
}

// newFinding describes a text of a tool that models read and people do not see, and that
// its definition before did not have; empty for none. Nobody would look at it if the
// definition were released by itself.
func newFinding(before *release.Spec, tool *toolroom.Tool) string {
	type text struct{ rule, says, excerpt string }
	old := map[text]bool{}
	if t, err := before.Tool(); err == nil {
		for _, f := range catalog.Inspect([]toolroom.Tool{t}, nil, "") {
			old[text{f.Rule, f.Says, f.Excerpt}] = true
		}
	}
	for _, f := range catalog.Inspect([]toolroom.Tool{*tool}, nil, "") {
		if !old[text{f.Rule, f.Says, f.Excerpt}] {
			return f.String()
		}
	}
	return ""
}

// takenBack reports whether the last that a person did with a version was to roll it back.
func (a *App) takenBack(ctx context.Context, tool string, number int) (bool, error) {
	log, err := a.store.ReleaseLog(ctx, tool, -1)
	for _, e := range log { // newest first
		if e.Environment == release.Prod && (e.Version == number || e.Previous == number) {
			return e.Action == release.ActionRollback && e.Previous == number, err
		}
	}
	return false, err
}

// widens reports whether prompts were added or removed, and the released ones are unchanged.
// It makes the version that of all prompts: one that is gone may come back changed.
func (a *App) widens(before, v *release.Version) bool {
	if !samePrompts(before.Spec.Raw, v.Spec.Raw) {
		return false
	}
	tool, err := v.Spec.Tool()
	if err == nil {
		tool.Raw, err = withPrompts(before.Spec.Raw, v.Spec.Raw)
	}
	if err != nil {
		return false
	}
	wide, err := a.offeredVersion(v.Spec.Source, &tool)
	if err != nil {
		return false
	}
	*v = *wide
	return true
}

// shown returns a tool for the catalog, with its version: of a quarantined one, the released
// definition. ok is false if that is not a tool; err means that it cannot be read.
func (a *App) shown(ctx context.Context, tool toolroom.Tool, of *known, held bool) (_ toolroom.Tool, ok bool, err error) {
	if !held || of.served == 0 {
		return tool, true, nil
	}
	v, err := a.store.Version(ctx, tool.ID.Unversioned().String(), of.served)
	if err != nil {
		return tool, false, err
	}
	old, broken := v.Spec.Tool()
	old.Release = v.Identity()
	return old, broken == nil, nil
}

// storeOffers stores the definitions that are new or released by themselves, and gives the
// state and the tools their versions. raced means that the store did not release one, since
// another version was released meanwhile.
func (a *App) storeOffers(ctx context.Context, source string, offers []release.Offer, state map[toolroom.ID]release.Offered, admitted []toolroom.Tool) (raced bool, failed error) {
	var news []release.Offer
	byID := map[toolroom.ID]*release.Version{}
	for _, o := range offers {
		id, err := toolroom.ParseID(o.Version.Tool)
		if err != nil {
			continue
		}
		byID[id] = o.Version
		s := state[id]
		if o.Version.Number = s.Version; o.Release || s.Version == 0 {
			news = append(news, o)
		}
	}
	if err := a.store.PutOffers(ctx, news); err != nil {
		return false, err
	}
	var now map[string]known
	if slices.ContainsFunc(news, func(o release.Offer) bool { return o.Release }) {
		now, failed = a.knownVersions(ctx, source)
	}
	for _, o := range news {
		id, err := toolroom.ParseID(o.Version.Tool)
		if err != nil {
			continue
		}
		s := state[id]
		s.Version = o.Version.Number
		if of, ok := now[o.Version.Tool]; o.Release && ok && of.served != s.Version {
			raced, s.Served, s.Quarantined = true, of.served, "another version of it was released meanwhile"
		} else if o.Release {
			if s.Served != 0 && s.Served != s.Version {
				a.log.Info("a changed definition was released by the source's policy", "tool", o.Version.Tool, "version", s.Version, "see", fmt.Sprintf("toolroom tool diff %s %d %d", o.Version.Tool, s.Served, s.Version))
			}
			s.Served = s.Version
		}
		state[id] = s
	}
	a.definitions.set(source, maps.Clone(state))
	for i := range admitted {
		t := &admitted[i]
		id := t.ID.Unversioned()
		if v := byID[id]; v != nil && state[id].Quarantined == "" {
			t.Release = v.Identity()
		}
	}
	if len(news) > 0 {
		if err := a.served.load(ctx); err != nil {
			a.log.Warn("cannot read the releases", "error", err)
		}
	}
	return raced, failed
}

// quarantinedOf returns what a manager asks before calls, or nil if changed definitions are
// released by themselves: then those of an earlier process need not be compared before a
// call. Policy denies the few that are quarantined.
func (a *App) quarantinedOf(by trust) func(toolroom.ID) release.Offered {
	if by.definitions == config.DefinitionsAuto && !by.quarantine {
		return nil
	}
	return func(id toolroom.ID) release.Offered {
		o, _ := a.definitions.of(id)
		return o
	}
}

// isOurs reports whether a tool is the one that reads a source's resources. Its definition
// is this program's, not the source's. The definitions of a server are in Raw.
func isOurs(t *toolroom.Tool) bool { return len(t.Raw) == 0 && t.ID.Name == catalog.ReadTool }

// namedByUs reports whether a tool has its name from this program: that of reading a
// source's resources or prompts, which every MCP server may have.
func namedByUs(t toolroom.Tool) bool {
	return t.ID.Name == catalog.ReadTool || t.ID.Name == catalog.GetTool
}

// samePrompts reports whether the prompts in both definitions are equal. It ignores prompts
// that are only in one.
func samePrompts(before, now json.RawMessage) bool {
	released, offered := saidPrompts(before), saidPrompts(now)
	if len(released) == 0 || len(offered) == 0 {
		return false
	}
	for name, text := range offered {
		said, known := released[name]
		if !known {
			continue
		}
		a, aerr := release.SeenText(said)
		b, berr := release.SeenText(text)
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// withPrompts returns a definition with the prompts of an earlier one added.
func withPrompts(before, now json.RawMessage) (json.RawMessage, error) {
	var d promptsOf
	if err := json.Unmarshal(now, &d); err != nil {
		return nil, err
	}
	for name, text := range saidPrompts(before) {
		d.Prompts[name] = text
	}
	return json.Marshal(d)
}

// offeredNow implements [release.Options.Offered].
func (a *App) offeredNow(tool string) (release.Offered, bool) {
	id, err := toolroom.ParseID(tool)
	if err != nil {
		return release.Offered{}, false
	}
	return a.definitions.of(id)
}

// look implements [release.Options.Look].
func (a *App) look(ctx context.Context, namespace string) error {
	if m := a.manager(namespace); m != nil {
		return m.list(ctx)
	}
	return nil
}

// readmit compares the tools of sources with their versions again, if others are served now.
func (a *App) readmit(serving map[string]int) {
	for _, name := range a.definitions.stale(serving) {
		if m := a.manager(name); m != nil {
			m.readmit()
		}
	}
}

// definition returns the catalog's tool for a call that names a version of a tool that a
// source defines: the released one, or, for who tries it, the offered one. It returns nil if
// the source has not been listed.
func (a *App) definition(ctx context.Context, c release.Choice, call *toolroom.Call) (*catalog.Entry, error) {
	id, err := toolroom.ParseID(c.Tool)
	if err != nil {
		return nil, err
	}
	o, ok := a.definitions.of(id)
	m := a.manager(id.Namespace)
	if !ok || m == nil {
		return nil, nil
	}
	if o.Version != c.Version {
		e := toolroom.Errorf(toolroom.CodeToolNotFound, "%s offers version %d of %s, and version %d no longer", id.Namespace, o.Version, id, c.Version)
		return nil, e.WithHint("leave the version out")
	}
	if o.Quarantined == "" || call.Surface != release.SurfaceTest || call.Environment != release.Draft {
		return a.catalog.Resolve(c.Tool, nil) // policy denies it if it is quarantined
	}
	v, err := a.store.Version(ctx, c.Tool, c.Version)
	if err != nil {
		return nil, err
	}
	tool, err := v.Spec.Tool()
	if err != nil {
		return nil, err
	}
	tool.Release = v.Identity()
	return a.catalog.NewEntry(m.name, &tried{m, o.Version}, tool)
}

// tried is a source whose quarantined version is tried.
type tried struct {
	*sourceManager
	version int
}

// Call calls the source, if it still offers the version.
func (s *tried) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	return s.call(ctx, req, s.version)
}

// Waiting is what a person must decide on: the quarantined tools of a source.
type Waiting struct {
	Source string `json:"source"`
	// Digest identifies the offered definitions.
	Digest string            `json:"digest"`
	Tools  []WaitingTool     `json:"tools"`
	Found  []catalog.Finding `json:"findings,omitempty"`
}

// WaitingTool is a tool whose offered version is not released.
type WaitingTool struct {
	Tool string `json:"tool"`
	release.Offered
	Changes []release.Change `json:"changes"`
	Breaks  []string         `json:"breaks,omitempty"`
}

// Quarantined returns the number of quarantined tools of each source that has any.
func (a *App) Quarantined() map[string]int {
	counts := map[string]int{}
	for _, h := range a.allManagers() {
		if n := a.definitions.count(h.name); n > 0 {
			counts[h.name] = n
		}
	}
	return counts
}

// WaitingOf lists a source and returns its quarantined tools. The error is not_found if the source
// is not configured, or the source's error if it cannot be listed.
func (a *App) WaitingOf(ctx context.Context, name string) (*Waiting, error) {
	m := a.manager(name)
	if m == nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
	}
	if err := m.list(ctx); err != nil {
		return nil, err
	}
	offer := m.listedTools()
	w := &Waiting{Source: name, Tools: []WaitingTool{}, Found: a.findings(m, offer)}
	for i := range offer {
		id := offer[i].ID.Unversioned()
		o, ok := a.definitions.of(id)
		if !ok || o.Quarantined == "" || o.Version == 0 {
			continue
		}
		one := WaitingTool{Tool: id.String(), Offered: o}
		v, err := a.store.Version(ctx, one.Tool, o.Version)
		if err != nil {
			return nil, err
		}
		var before *release.Spec
		if o.Served != 0 {
			old, err := a.store.Version(ctx, one.Tool, o.Served)
			if err != nil {
				return nil, err
			}
			before = &old.Spec
			one.Breaks = release.Breaks(before, &v.Spec)
		}
		one.Changes = release.Changes(before, &v.Spec)
		w.Tools = append(w.Tools, one)
	}
	slices.SortFunc(w.Tools, func(x, y WaitingTool) int { return cmp.Compare(x.Tool, y.Tool) })
	h := sha256.New()
	for _, one := range w.Tools {
		fmt.Fprintf(h, "%s@%d\n", one.Tool, one.Version)
	}
	w.Digest = hex.EncodeToString(h.Sum(nil))[:12]
	return w, nil
}

// findings looks for hidden text in the tools of one source, and for names of other sources.
func (a *App) findings(of *sourceManager, offer []toolroom.Tool) []catalog.Finding {
	var others []toolroom.Tool
	for _, m := range a.allManagers() {
		if m.name != of.name {
			others = append(others, slices.DeleteFunc(slices.Clone(m.listedTools()), namedByUs)...)
		}
	}
	return catalog.Inspect(offer, others, of.Describe().Text)
}

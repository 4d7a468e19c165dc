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

// sourceTrust describes how far a source is trusted.
type sourceTrust struct {
	// definitions is the mode of the config for changed definitions: which of them are
	// released automatically.
	definitions string
	// quarantine quarantines new tools until a person releases them.
	quarantine bool
	// inConfig reports that the definitions are part of the config, so that the operator
	// wrote their texts.
	inConfig bool
}

// offeredDefinitions holds the tool definitions that the sources offer now.
type offeredDefinitions struct {
	mu       sync.RWMutex
	bySource map[string]map[toolroom.ID]offeredTool
}

// offeredTool is the definition of a tool that a source offers, compared with the released one.
type offeredTool struct {
	id        toolroom.ID // zero for a tool that this program has added, which is not compared
	digest    string      // of the offered definition; empty if it could not be compared
	state     release.Offered
	tool      toolroom.Tool  // for the catalog
	inCatalog bool           // tool belongs in the catalog
	offer     *release.Offer // to be stored; nil for none
}

// set replaces the definitions that a source offers, and reports whether the quarantined
// ones have changed.
func (d *offeredDefinitions) set(source string, all []offeredTool) bool {
	offered := make(map[toolroom.ID]offeredTool, len(all))
	for _, o := range all {
		if o.id != (toolroom.ID{}) {
			o.offer = nil // it is of one comparison, and not of a later one that takes the rest over
			offered[o.id] = o
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	news := !maps.Equal(quarantined(d.bySource[source]), quarantined(offered))
	if d.bySource == nil {
		d.bySource = map[string]map[toolroom.ID]offeredTool{}
	}
	d.bySource[source] = offered
	return news
}

// lastOffered returns the definitions that a source offered when it was last compared. The
// map must not be changed.
func (d *offeredDefinitions) lastOffered(source string) map[toolroom.ID]offeredTool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.bySource[source]
}

// remove removes a source, because another source or a function may get tools of the same
// ids.
func (d *offeredDefinitions) remove(source string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.bySource, source)
}

// quarantined returns the quarantined ones of the offered tools.
func quarantined(offered map[toolroom.ID]offeredTool) map[toolroom.ID]release.Offered {
	held := map[toolroom.ID]release.Offered{}
	for id, o := range offered {
		if o.state.Quarantined != "" {
			held[id] = o.state
		}
	}
	return held
}

// outdatedSources returns the sources that have a tool of which prod serves another version
// than when it was compared.
func (d *offeredDefinitions) outdatedSources(serving map[string]int) []string {
	d.mu.RLock()
	defer d.mu.RUnlock()
	var names []string
	for source, tools := range d.bySource {
		for id, o := range tools {
			if o.state.Served != serving[id.String()] {
				names = append(names, source)
				break
			}
		}
	}
	return names
}

// count returns the number of quarantined tools of a source.
func (d *offeredDefinitions) count(source string) int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(quarantined(d.bySource[source]))
}

// offered returns the version of a tool that its source offers.
func (d *offeredDefinitions) offered(id toolroom.ID) (release.Offered, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	o, ok := d.bySource[id.Namespace][id.Unversioned()]
	return o.state, ok
}

// denyQuarantined denies calls of quarantined tools, except trial calls of the offered
// version. Policy also decides which tools are visible, so models see neither the released
// nor the offered definition.
func (d *offeredDefinitions) denyQuarantined(decision policy.Decision, r policy.Request) policy.Decision {
	if decision.Effect == toolroom.VerdictDeny {
		return decision
	}
	o, _ := d.offered(r.Tool.ID)
	tries := r.Call != nil && r.Call.Surface == release.SurfaceTest && r.Tool.Release != nil && r.Tool.Release.Version == o.Version
	if o.Quarantined == "" || tries {
		return decision
	}
	return decision.WithStep(toolroom.PolicyStep{
		Layer: "policy.definitions", Effect: toolroom.VerdictDeny, Rule: o.Quarantined,
		Hint: "a person must look at the difference and release it", CLIHint: fmt.Sprintf("see the difference, and how to release it: toolroom tool diff %s", r.Tool.ID.Unversioned()),
	})
}

// admit compares the source's tools with their released versions and returns the tools that
// may be in the catalog. Of a quarantined tool it returns the released definition. If the
// versions cannot be read or written, it returns an error too, and the caller must try again:
// definitions that have not changed since they were last compared stay as they were, and all
// others are quarantined.
func (a *App) admit(ctx context.Context, source string, by sourceTrust, tools []toolroom.Tool) ([]toolroom.Tool, error) {
	for range admitAttempts {
		admitted, raced, err := a.admitOnce(ctx, source, by, slices.Clone(tools))
		if !raced {
			return admitted, err
		}
	}
	admitted, _, err := a.admitOnce(ctx, source, by, tools)
	return admitted, err
}

// admitAttempts is how often tools are compared again because a version was released
// meanwhile.
const admitAttempts = 4

// admitOnce is one attempt of admit. raced reports that a version was released meanwhile,
// so that the comparison is out of date.
func (a *App) admitOnce(ctx context.Context, source string, by sourceTrust, tools []toolroom.Tool) (admitted []toolroom.Tool, raced bool, failed error) {
	known, failed := a.knownVersions(ctx, source)
	last, seen := a.definitions.lastOffered(source), map[toolroom.ID]bool{}
	var all []offeredTool
	for _, tool := range tools {
		id := tool.ID.Unversioned()
		if seen[id] {
			continue // the first one counts, in the catalog too
		}
		if isResourceReader(&tool) {
			all = append(all, offeredTool{tool: tool, inCatalog: true})
			continue
		}
		seen[id] = true
		v, err := a.offeredVersion(source, &tool)
		if err == nil && failed == nil {
			var o offeredTool
			if o, failed = a.compare(ctx, by, known[v.Tool], v, tool); failed == nil {
				all = append(all, o)
				continue
			}
		}
		o := offeredTool{id: id, tool: tool, inCatalog: true, state: release.Offered{Quarantined: notCompared}}
		if before, ok := last[id]; ok && err == nil && before.digest == v.Digest {
			o = before
		}
		all = append(all, o)
	}
	// Quarantine first and then show, so that the new definitions are never visible.
	news := a.definitions.set(source, all)
	raced, err := a.storeOffers(ctx, source, all)
	if held := a.definitions.count(source); news && held > 0 {
		a.log.Warn("tools are quarantined until a person has released their definitions", "source", source, "tools", held, "fix", "toolroom tool diff '"+source+":*'")
	}
	admitted = make([]toolroom.Tool, 0, len(all))
	for _, o := range all {
		if o.inCatalog {
			admitted = append(admitted, o.tool)
		}
	}
	if failed == nil {
		failed = err
	}
	return admitted, raced, failed
}

const notCompared = "its definition cannot be compared with the released one"

// storedTool holds the stored versions of a tool of a source.
type storedTool struct {
	served   int            // the version that prod serves; zero for none
	digest   string         // of the served version
	numbers  map[string]int // newest version of each digest
	status   map[int]release.Head
	function bool // a function has the id
}

func (a *App) knownVersions(ctx context.Context, source string) (map[string]storedTool, error) {
	heads, err := a.store.Heads(ctx, source)
	if err != nil {
		return nil, err
	}
	all := map[string]storedTool{}
	for _, h := range heads {
		of, ok := all[h.Tool]
		if !ok {
			of = storedTool{numbers: map[string]int{}, status: map[int]release.Head{}}
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

// compare compares an offered definition with the stored versions of its tool. It returns
// an error if it cannot read a version.
func (a *App) compare(ctx context.Context, by sourceTrust, of storedTool, v *release.Version, tool toolroom.Tool) (offeredTool, error) {
	o := offeredTool{id: tool.ID.Unversioned(), digest: v.Digest}
	released, quarantined, err := a.decideRelease(ctx, by, &of, v, tool)
	if err != nil {
		return o, err
	}
	if o.tool, o.inCatalog, err = a.catalogTool(ctx, tool, &of, quarantined != ""); err != nil {
		return o, err
	}
	o.state = release.Offered{Version: of.numbers[v.Digest], Served: of.served, Quarantined: quarantined}
	if !of.function {
		o.offer = &release.Offer{Version: v, Release: released, From: of.served, Demoted: cmp.Or(a.releaseRules().Demoted, release.StatusDeprecated)}
	}
	return o, nil
}

// decideRelease decides whether an offered definition is released automatically, or why it
// is quarantined. If prod serves it already, it is neither. decideRelease may change v, see
// mergePrompts. It returns an error if it cannot read a version.
func (a *App) decideRelease(ctx context.Context, by sourceTrust, of *storedTool, v *release.Version, tool toolroom.Tool) (released bool, quarantined string, _ error) {
	autoRelease := func() (bool, string, error) { return true, "", nil }
	quarantine := func(format string, args ...any) (bool, string, error) {
		return false, fmt.Sprintf(format, args...), nil
	}
	number, seen := of.numbers[v.Digest]
	switch {
	case of.function:
		return quarantine("a function has the same id")
	case of.served != 0 && of.digest == v.Digest:
		return false, "", nil
	case len(of.numbers) == 0 && by.quarantine:
		return quarantine("it is new, and new tools of %s wait for their release", v.Spec.Source)
	case len(of.numbers) == 0:
		return autoRelease()
	case of.served == 0:
		return quarantine("no version of it is released")
	}
	before, err := a.store.Version(ctx, v.Tool, of.served)
	if err != nil {
		return false, "", err
	}
	if tool.ID.Name == catalog.GetTool && !by.quarantine && a.mergePrompts(before, v) {
		if v.Digest == of.digest {
			return false, "", nil
		}
		return autoRelease()
	}
	if seen {
		back, err := a.wasRolledBack(ctx, v.Tool, number)
		if err != nil {
			return false, "", err
		}
		if back || of.status[number].Reason != "" {
			return quarantine("version %d, which %s offers, was taken back", number, v.Spec.Source)
		}
	}
	if by.definitions == config.DefinitionsAuto || by.definitions == config.DefinitionsAdditive && release.Additive(&before.Spec, &v.Spec) {
		if f := newFinding(&before.Spec, &tool); f != "" && !by.inConfig {
			return quarantine("its definition differs from version %d, which is released, and has what people do not see: %s", of.served, f)
		}
		return autoRelease()
	}
	return quarantine("its definition differs from version %d, which is released", of.served)
}

// newFinding describes a text of a tool that models read but people do not see, and that
// the definition before did not have. It returns "" if there is none. Such a definition
// must not be released automatically, because a person should look at the text.
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

// wasRolledBack reports whether the last thing that a person did with a version was to roll
// it back.
func (a *App) wasRolledBack(ctx context.Context, tool string, number int) (bool, error) {
	log, err := a.store.ReleaseLog(ctx, tool, -1)
	for _, e := range log { // newest first
		if e.Environment == release.Prod && (e.Version == number || e.Previous == number) {
			return e.Action == release.ActionRollback && e.Previous == number, err
		}
	}
	return false, err
}

// mergePrompts reports whether two versions differ only in prompts that were added or
// removed. If so, it makes v the version with the prompts of both, so that a prompt that
// was removed and comes back changed is noticed.
func (a *App) mergePrompts(before, v *release.Version) bool {
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

// catalogTool returns a tool for the catalog, with its version. For a quarantined tool that
// is the released definition; ok is false if it is not a valid tool, and err reports that
// it could not be read.
func (a *App) catalogTool(ctx context.Context, tool toolroom.Tool, of *storedTool, held bool) (_ toolroom.Tool, ok bool, err error) {
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

// storeOffers stores the definitions that are new or released automatically, and sets the
// version of all. raced reports that the store did not release one, because another version
// was released meanwhile.
func (a *App) storeOffers(ctx context.Context, source string, all []offeredTool) (raced bool, failed error) {
	var news []release.Offer
	releases := false
	for _, o := range all {
		if o.offer == nil {
			continue
		}
		if o.offer.Version.Number = o.state.Version; o.offer.Release || o.state.Version == 0 {
			news = append(news, *o.offer)
			releases = releases || o.offer.Release
		}
	}
	if err := a.store.PutOffers(ctx, news); err != nil {
		return false, err
	}
	var now map[string]storedTool
	if releases {
		now, failed = a.knownVersions(ctx, source)
	}
	for i := range all {
		o := &all[i]
		if o.offer == nil {
			continue
		}
		v := o.offer.Version
		o.state.Version = v.Number
		if of, ok := now[v.Tool]; o.offer.Release && ok && of.served != v.Number {
			raced, o.state.Served, o.state.Quarantined = true, of.served, "another version of it was released meanwhile"
		} else if o.offer.Release {
			if o.state.Served != 0 && o.state.Served != v.Number {
				a.log.Info("a changed definition was released by the source's policy", "tool", v.Tool, "version", v.Number, "see", fmt.Sprintf("toolroom tool diff %s %d %d", v.Tool, o.state.Served, v.Number))
			}
			o.state.Served = v.Number
		}
		if o.state.Quarantined == "" {
			o.tool.Release = v.Identity()
		}
	}
	a.definitions.set(source, all)
	if len(news) > 0 {
		if err := a.servedVersions.load(ctx); err != nil {
			a.log.Warn("cannot read the releases", "error", err)
		}
	}
	return raced, failed
}

// quarantineCheck returns the function that a source manager calls before calls. It returns
// nil if changed definitions are released automatically: then definitions that an earlier
// process has listed need not be compared before a call, and policy denies the few that are
// quarantined.
func (a *App) quarantineCheck(by sourceTrust) func(toolroom.ID) release.Offered {
	if by.definitions == config.DefinitionsAuto && !by.quarantine {
		return nil
	}
	return func(id toolroom.ID) release.Offered {
		o, _ := a.definitions.offered(id)
		return o
	}
}

// isResourceReader reports whether a tool is the one that reads a source's resources. This
// program defines it, so it has no Raw definition from a server.
func isResourceReader(t *toolroom.Tool) bool { return len(t.Raw) == 0 && t.ID.Name == catalog.ReadTool }

// hasOurName reports whether a tool has the name of one that this program adds for reading
// a source's resources or prompts. Any MCP server may have a tool of that name.
func hasOurName(t toolroom.Tool) bool {
	return t.ID.Name == catalog.ReadTool || t.ID.Name == catalog.GetTool
}

// samePrompts reports whether the prompts that are in both definitions are equal.
func samePrompts(before, now json.RawMessage) bool {
	released, offered := promptsIn(before), promptsIn(now)
	if len(released) == 0 || len(offered) == 0 {
		return false
	}
	for name, text := range offered {
		said, known := released[name]
		if !known {
			continue
		}
		a, aerr := release.CanonicalText(said)
		b, berr := release.CanonicalText(text)
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// withPrompts returns a definition with the prompts of an earlier one added.
func withPrompts(before, now json.RawMessage) (json.RawMessage, error) {
	var d promptDefinition
	if err := json.Unmarshal(now, &d); err != nil {
		return nil, err
	}
	maps.Copy(d.Prompts, promptsIn(before))
	return json.Marshal(d)
}

// offeredNow implements [release.Options.Offered].
func (a *App) offeredNow(tool string) (release.Offered, bool) {
	id, err := toolroom.ParseID(tool)
	if err != nil {
		return release.Offered{}, false
	}
	return a.definitions.offered(id)
}

// listSource implements [release.Options.Look].
func (a *App) listSource(ctx context.Context, namespace string) error {
	if m := a.manager(namespace); m != nil {
		return m.list(ctx)
	}
	return nil
}

// readmit compares the tools of a source with their versions again if prod now serves
// others.
func (a *App) readmit(serving map[string]int) {
	for _, name := range a.definitions.outdatedSources(serving) {
		if m := a.manager(name); m != nil {
			m.readmit()
		}
	}
}

// entryForVersion returns the catalog entry for a version of a tool that a source defines.
// That is the released version, or the offered one if the call is a trial of it. It returns
// nil if the source has not been listed.
func (a *App) entryForVersion(ctx context.Context, c release.Choice, call *toolroom.Call) (*catalog.Entry, error) {
	id, err := toolroom.ParseID(c.Tool)
	if err != nil {
		return nil, err
	}
	o, ok := a.definitions.offered(id)
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
	return a.catalog.NewEntry(m.name, &triedVersion{m, o.Version}, tool)
}

// triedVersion is a source for trial calls of a quarantined version.
type triedVersion struct {
	*sourceManager
	version int
}

// Call calls the source if it still offers the version.
func (s *triedVersion) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	return s.call(ctx, req, s.version)
}

// QuarantinedSource lists the quarantined tools of a source, which a person must decide on.
type QuarantinedSource struct {
	Source string `json:"source"`
	// Digest identifies the offered definitions.
	Digest string            `json:"digest"`
	Tools  []QuarantinedTool `json:"tools"`
	Found  []catalog.Finding `json:"findings,omitempty"`
}

// QuarantinedTool is a tool whose offered version is not released.
type QuarantinedTool struct {
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

// QuarantinedSource lists a source and returns its quarantined tools. It returns not_found
// if the source is not configured, or the source's error if it cannot be listed.
func (a *App) QuarantinedSource(ctx context.Context, name string) (*QuarantinedSource, error) {
	m := a.manager(name)
	if m == nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", name).WithCLIHint("list the sources: toolroom sources list")
	}
	if err := m.list(ctx); err != nil {
		return nil, err
	}
	offer := m.listedTools()
	w := &QuarantinedSource{Source: name, Tools: []QuarantinedTool{}, Found: a.findings(m, offer)}
	for i := range offer {
		id := offer[i].ID.Unversioned()
		o, ok := a.definitions.offered(id)
		if !ok || o.Quarantined == "" || o.Version == 0 {
			continue
		}
		one := QuarantinedTool{Tool: id.String(), Offered: o}
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
	slices.SortFunc(w.Tools, func(x, y QuarantinedTool) int { return cmp.Compare(x.Tool, y.Tool) })
	h := sha256.New()
	for _, one := range w.Tools {
		fmt.Fprintf(h, "%s@%d\n", one.Tool, one.Version)
	}
	w.Digest = hex.EncodeToString(h.Sum(nil))[:12]
	return w, nil
}

// findings looks for hidden text and for names of other sources in the tools of one source.
func (a *App) findings(of *sourceManager, offer []toolroom.Tool) []catalog.Finding {
	var others []toolroom.Tool
	for _, m := range a.allManagers() {
		if m.name != of.name {
			others = append(others, slices.DeleteFunc(slices.Clone(m.listedTools()), hasOurName)...)
		}
	}
	return catalog.Inspect(offer, others, of.Describe().Text)
}

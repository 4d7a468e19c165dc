// Package catalog holds all tools. It resolves names that people and models write,
// and lists, searches and describes tools. It knows the source of a tool but not
// where code runs. [Inspect] finds what a definition hides from people.
//
// A [Library] holds the resources and prompts of all sources in the same way: it lists
// the entries that a caller may see and finds the source of a URI or a name. Reading
// one is a call like any other (see [ReadTool] and [GetTool]).
package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/source"
)

// Entry is one tool as one provider offers it. Entries are immutable.
type Entry struct {
	Tool toolroom.Tool
	// Provider is the name of the source in the catalog.
	Provider string
	Source   source.Source
	// CancelsPromptly is copied from the description of the source.
	CancelsPromptly bool
	// ID is the canonical id as text, and ModelName the name for model APIs.
	ID, ModelName string
	// OutsideProd marks a tool that is released, but not to prod. A bare
	// name means another tool first.
	OutsideProd bool

	input, output lazySchema
}

// lazySchema compiles a schema on first use, because most tools of a large catalog are
// never called.
type lazySchema struct {
	cache    *schema.Cache
	once     sync.Once
	compiled *schema.Schema
	err      error
}

func (l *lazySchema) get(raw []byte) (*schema.Schema, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	l.once.Do(func() { l.compiled, l.err = l.cache.Compile(raw) })
	return l.compiled, l.err
}

// Input returns the compiled schema of the arguments, or nil if there is none.
func (e *Entry) Input() (*schema.Schema, error) { return e.input.get(e.Tool.InputSchema) }

// Output returns the compiled schema of the value, or nil if there is none.
func (e *Entry) Output() (*schema.Schema, error) { return e.output.get(e.Tool.OutputSchema) }

// CheckSchemas returns an error if one of the schemas cannot be used, so that calls of
// the tool fail.
func (e *Entry) CheckSchemas() error {
	input, err := e.Input()
	if err == nil && input != nil {
		err = input.CheckArguments()
	}
	if err != nil {
		return fmt.Errorf("the input schema cannot be used: %w", err)
	}
	if _, err := e.Output(); err != nil {
		return fmt.Errorf("the output schema cannot be used: %w", err)
	}
	return nil
}

// Selector selects the provider that serves an id if several offer it. The slice is
// never empty and is in the order of registration.
type Selector func(offers []*Entry) *Entry

// Options are options of a [Catalog]. The zero value is ready to use.
type Options struct {
	// Selector defaults to [LocalFirst].
	Selector Selector
	// Coalesce is the time for which changes are collected before subscribers receive
	// them. The default is 150 ms.
	Coalesce time.Duration
	// Schemas caches compiled schemas. If it is nil, the catalog creates a cache.
	Schemas *schema.Cache
	// Reserved returns an error if only a built-in provider may offer tools of a
	// namespace; nil permits all.
	Reserved func(namespace string) error
	// MissingHint returns how to get the tools of a namespace that has none here, or "".
	MissingHint func(namespace string) string
	// Shared is called once for each further provider of an id, with the provider that
	// serves the id.
	Shared func(id toolroom.ID, serves string, providers []string)
	// Learner learns from searches and the calls that follow them; nil learns nothing.
	Learner Learner
}

// schemaCache is the number of compiled schemas that are kept while tools are added
// and removed with their sources.
const schemaCache = 4096

// Catalog is the set of all tools. Its methods are safe for concurrent use.
type Catalog struct {
	selector    Selector
	schemas     *schema.Cache
	changes     *changes
	reserved    func(namespace string) error
	hintMissing func(namespace string) string
	onShared    func(id toolroom.ID, serves string, providers []string)

	mu     sync.RWMutex
	offers map[toolroom.ID][]*Entry // by unversioned id
	shared []toolroom.ID            // with a further provider that has not been reported yet
	// byName, byAlias and byModelName map other spellings to ids.
	byName      map[string][]toolroom.ID
	byAlias     map[string]toolroom.ID
	byModelName map[string]toolroom.ID
	// sorted caches all ids in order, and fingerprint identifies that order. Both are
	// rebuilt on first use after a change.
	sorted      []toolroom.ID
	fingerprint string
	index       *search.Index
	meaning     atomic.Pointer[Meaning]
	noMeaning   atomic.Pointer[string]
	learner     Learner // nil learns nothing
	// searchable maps the text of each id that search may find to the entry that serves it.
	// A search reads it while it holds the lock of the index, and a change waits for
	// that lock while it holds mu. Therefore neither lock guards this map.
	searchable sync.Map // of *Entry, by string
	variants   sync.Map // of map[string]*Entry by version, by string; see SetVariants
	providers  map[string]source.Description
	// version counts changes of entries.
	version  atomic.Uint64
	resolved atomic.Pointer[resolutions]
}

// New returns an empty catalog.
func New(o Options) *Catalog {
	if o.Selector == nil {
		o.Selector = LocalFirst
	}
	if o.Coalesce == 0 {
		o.Coalesce = 150 * time.Millisecond
	}
	if o.Reserved == nil {
		o.Reserved = func(string) error { return nil }
	}
	if o.MissingHint == nil {
		o.MissingHint = func(string) string { return "" }
	}
	if o.Shared == nil {
		o.Shared = func(toolroom.ID, string, []string) {}
	}
	if o.Schemas == nil {
		o.Schemas = schema.NewCache(schemaCache, schema.Limits{})
	}
	return &Catalog{
		selector:    o.Selector,
		schemas:     o.Schemas,
		changes:     newChanges(o.Coalesce),
		reserved:    o.Reserved,
		hintMissing: o.MissingHint,
		onShared:    o.Shared,
		offers:      map[toolroom.ID][]*Entry{},
		byName:      map[string][]toolroom.ID{},
		byAlias:     map[string]toolroom.ID{},
		byModelName: map[string]toolroom.ID{},
		index:       &search.Index{},
		learner:     o.Learner,
		providers:   map[string]source.Description{},
	}
}

// LocalFirst prefers local tools (Go, Python, JavaScript, WebAssembly,
// builtin), then providers (HTTP, OpenAPI, command line), then MCP servers.
func LocalFirst(offers []*Entry) *Entry {
	return slices.MinFunc(offers, func(a, b *Entry) int { return rank(a.Tool.Source) - rank(b.Tool.Source) })
}

func rank(k toolroom.SourceKind) int {
	switch k {
	case toolroom.SourceMCP:
		return 2
	case toolroom.SourceHTTP, toolroom.SourceOpenAPI, toolroom.SourceGraphQL, toolroom.SourceCLI:
		return 1
	default:
		return 0
	}
}

// SetProvider replaces all tools of a provider: it adds new tools, replaces changed
// ones and removes missing ones. It leaves out invalid tools and reports them in the
// joined error; the others are registered.
func (c *Catalog) SetProvider(provider string, src source.Source, tools []toolroom.Tool) error {
	return c.setProvider(provider, src, tools, c.reserved)
}

// SetBuiltin is like [Catalog.SetProvider], for Toolroom's own tools, whose namespaces
// are reserved.
func (c *Catalog) SetBuiltin(provider string, src source.Source, tools []toolroom.Tool) error {
	return c.setProvider(provider, src, tools, func(string) error { return nil })
}

func (c *Catalog) setProvider(provider string, src source.Source, tools []toolroom.Tool, reserved func(string) error) error {
	var problems []error
	var entries []*Entry // in the order of tools: the first one gets an alias
	listed := make(map[toolroom.ID]bool, len(tools))
	for i := range tools {
		e, err := c.entry(provider, src, tools[i], reserved)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		key := e.Tool.ID.Unversioned()
		if listed[key] {
			problems = append(problems, toolroom.Errorf(toolroom.CodeConflict, "source %s lists the tool %s twice", provider, key))
			continue
		}
		listed[key] = true
		entries = append(entries, e)
	}

	// Without the lock, because a source may use the catalog, or wait for a lock of its own.
	var described source.Description
	if d, ok := source.As[source.Describer](src); ok {
		described = d.Describe()
	}
	for _, e := range entries {
		e.CancelsPromptly = described.CancelsPromptly
	}

	defer c.reportShared()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.providers[provider] = described
	before := c.offeredBy(provider)
	for _, id := range before {
		if !listed[id] {
			c.drop(provider, id)
		}
	}
	// Any tool of the new list may use the aliases of the old list.
	for _, id := range before {
		c.removeOwnAliases(provider, id)
	}
	for _, e := range entries {
		if err := c.put(e); err != nil {
			c.drop(provider, e.Tool.ID.Unversioned()) // the old definition, which the new one should have replaced
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// Register adds or replaces one tool of a provider. It returns an error with code
// conflict if an alias is in use, and an error if a schema cannot be used, so that
// the author corrects it. After an error the previous tool remains.
func (c *Catalog) Register(provider string, src source.Source, tool toolroom.Tool) error {
	return c.register(provider, src, tool, true, false)
}

// RegisterOutsideProd is like [Catalog.Register], for a tool that only other environments than
// prod have.
func (c *Catalog) RegisterOutsideProd(provider string, src source.Source, tool toolroom.Tool) error {
	return c.register(provider, src, tool, true, true)
}

// Announce tells subscribers that a tool has changed of which the catalog holds one version:
// another environment has another one.
func (c *Catalog) Announce(id toolroom.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.offers[id]) > 0 {
		c.version.Add(1)
		c.changes.add(toolroom.Change{Kind: toolroom.ChangeUpdated, ID: id})
	}
}

// Add is like [Catalog.Register], but returns an error with code conflict if the
// provider already offers the id.
func (c *Catalog) Add(provider string, src source.Source, tool toolroom.Tool) error {
	return c.register(provider, src, tool, false, false)
}

func (c *Catalog) register(provider string, src source.Source, tool toolroom.Tool, replace, outsideProd bool) error {
	e, err := c.entry(provider, src, tool, c.reserved)
	if err != nil {
		return err
	}
	e.OutsideProd = outsideProd
	if err := e.CheckSchemas(); err != nil {
		refused := toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: %w", tool.ID, err)
		refused.Tool = tool.ID.String()
		return refused
	}
	defer c.reportShared()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, old := range c.offers[tool.ID.Unversioned()] {
		if old.Provider == provider && !replace {
			return toolroom.Errorf(toolroom.CodeConflict, "tool %s is already registered", old.ID).
				WithHint("choose another id, or replace the tool explicitly")
		}
	}
	if _, known := c.providers[provider]; !known {
		c.providers[provider] = source.Description{Kind: tool.Source}
	}
	return c.put(e)
}

// reportShared calls onShared for the ids that have a further provider.
func (c *Catalog) reportShared() {
	type report struct {
		id        toolroom.ID
		serves    string
		providers []string
	}
	var all []report
	c.mu.Lock()
	for _, id := range c.shared {
		if offers := c.offers[id]; len(offers) > 1 {
			all = append(all, report{id, c.selector(offers).Provider, providers(offers)})
		}
	}
	c.shared = nil
	c.mu.Unlock()
	for _, r := range all {
		c.onShared(r.id, r.serves, r.providers)
	}
}

// Unregister removes one tool of a provider. It reports whether there was one.
func (c *Catalog) Unregister(provider string, id toolroom.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop(provider, id.Unversioned())
}

// RemoveProvider removes a provider and all its tools.
func (c *Catalog) RemoveProvider(provider string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.offeredBy(provider) {
		c.drop(provider, id)
	}
	delete(c.providers, provider)
}

// Len returns the number of tools, including hidden ones.
func (c *Catalog) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.offers)
}

// Version returns a number that changes with each change of an entry, even one that
// subscribers do not receive. Data derived from entries is valid while the version
// is the same; read the version before the entries.
func (c *Catalog) Version() uint64 { return c.version.Load() }

// Subscribe calls f with the collected changes, from one goroutine, until cancel is
// called. f must not block for long.
func (c *Catalog) Subscribe(f func([]toolroom.Change)) (cancel func()) {
	return c.changes.subscribers.Add(f)
}

// NewEntry returns an entry for a tool that is not in the catalog: another version of one
// that may be.
func (c *Catalog) NewEntry(provider string, src source.Source, tool toolroom.Tool) (*Entry, error) {
	e, err := c.entry(provider, src, tool, c.reserved)
	if err != nil {
		return nil, err
	}
	return e, e.CheckSchemas()
}

func (c *Catalog) entry(provider string, src source.Source, tool toolroom.Tool, reserved func(string) error) (*Entry, error) {
	if err := checkTool(&tool); err != nil {
		return nil, err
	}
	if err := checkReserved(&tool, reserved); err != nil {
		return nil, err
	}
	return &Entry{
		Tool:      tool,
		Provider:  provider,
		Source:    src,
		ID:        tool.ID.String(),
		ModelName: toolroom.ModelName(tool.ID),
		input:     lazySchema{cache: c.schemas},
		output:    lazySchema{cache: c.schemas},
	}, nil
}

func (c *Catalog) offeredBy(provider string) []toolroom.ID {
	var ids []toolroom.ID
	for id, offers := range c.offers {
		if slices.ContainsFunc(offers, func(e *Entry) bool { return e.Provider == provider }) {
			ids = append(ids, id)
		}
	}
	return ids
}

// put adds e. The caller holds the lock.
func (c *Catalog) put(e *Entry) error {
	id := e.Tool.ID.Unversioned()
	if err := c.checkAliases(e, id); err != nil {
		return err
	}
	c.version.Add(1)
	offers := c.offers[id]
	kind := toolroom.ChangeRegistered
	if at := slices.IndexFunc(offers, func(o *Entry) bool { return o.Provider == e.Provider }); at >= 0 {
		if sameDefinition(&offers[at].Tool, &e.Tool) && offers[at].OutsideProd == e.OutsideProd {
			// Only the source may differ: a new connection.
			offers = slices.Clone(offers)
			offers[at] = e
			c.offers[id] = offers
			if serving := c.selector(offers); !serving.Tool.Hidden {
				c.searchable.Store(id.String(), serving)
			}
			c.addAliasesOf(id)
			return nil
		}
		c.removeAliases(offers[at])
		kind = toolroom.ChangeUpdated
		offers = slices.Clone(offers)
		offers[at] = e
	} else {
		if len(offers) > 0 {
			kind = toolroom.ChangeUpdated
			c.shared = append(c.shared, id)
		}
		offers = append(slices.Clip(offers), e)
	}
	if len(c.offers[id]) == 0 {
		c.byName[id.Name] = append(c.byName[id.Name], id)
		c.byModelName[e.ModelName] = id
		c.sorted = nil
	}
	c.offers[id] = offers
	c.addAliasesOf(id)
	c.reindex(id)
	c.changes.add(toolroom.Change{Kind: kind, ID: id})
	return nil
}

func (c *Catalog) drop(provider string, id toolroom.ID) bool {
	offers := c.offers[id]
	at := slices.IndexFunc(offers, func(o *Entry) bool { return o.Provider == provider })
	if at < 0 {
		return false
	}
	c.version.Add(1)
	c.removeAliases(offers[at])
	rest := slices.Delete(slices.Clone(offers), at, at+1)
	if len(rest) > 0 {
		c.offers[id] = rest
		c.addAliasesOf(id)
		c.reindex(id)
		c.changes.add(toolroom.Change{Kind: toolroom.ChangeUpdated, ID: id})
		return true
	}
	delete(c.offers, id)
	delete(c.byModelName, offers[at].ModelName)
	c.byName[id.Name] = slices.DeleteFunc(c.byName[id.Name], func(o toolroom.ID) bool { return o == id })
	if len(c.byName[id.Name]) == 0 {
		delete(c.byName, id.Name)
	}
	c.sorted = nil
	c.removeFromSearch(id)
	c.changes.add(toolroom.Change{Kind: toolroom.ChangeRemoved, ID: id})
	return true
}

// removeFromSearch removes id from search.
func (c *Catalog) removeFromSearch(id toolroom.ID) {
	c.searchable.Delete(id.String())
	c.index.Delete(id.String())
}

// checkAliases returns an error if an alias can already mean another tool in any spelling.
func (c *Catalog) checkAliases(e *Entry, id toolroom.ID) error {
	for _, alias := range e.Tool.Aliases {
		holders, err := c.meanings(alias)
		if err != nil {
			return err
		}
		for _, holder := range holders {
			if holder != id {
				return toolroom.Errorf(toolroom.CodeConflict, "the alias %q of %s already belongs to %s", alias, id, holder).
					WithHint("choose another alias, or omit it")
			}
		}
	}
	return nil
}

// addAliasesOf adds the aliases of id from all its providers, because an alias that one
// removes may still be offered by another.
func (c *Catalog) addAliasesOf(id toolroom.ID) {
	for _, e := range c.offers[id] {
		c.addAliases(e)
	}
}

func (c *Catalog) addAliases(e *Entry) {
	for _, alias := range e.Tool.Aliases {
		c.byAlias[alias] = e.Tool.ID.Unversioned()
	}
}

func (c *Catalog) removeAliases(e *Entry) {
	for _, alias := range e.Tool.Aliases {
		if c.byAlias[alias] == e.Tool.ID.Unversioned() {
			delete(c.byAlias, alias)
		}
	}
}

// removeOwnAliases removes the aliases of id that only one provider offers.
func (c *Catalog) removeOwnAliases(provider string, id toolroom.ID) {
	for _, e := range c.offers[id] {
		if e.Provider == provider {
			c.removeAliases(e)
		}
	}
	for _, e := range c.offers[id] {
		if e.Provider != provider {
			c.addAliases(e)
		}
	}
}

// reindex updates the search index with the entry that serves id now.
func (c *Catalog) reindex(id toolroom.ID) {
	e := c.selector(c.offers[id])
	if e.Tool.Hidden {
		c.removeFromSearch(id)
		return
	}
	c.searchable.Store(id.String(), e)
	about := c.providers[e.Provider]
	c.index.Put(document(e, about))
}

// document returns what search knows of a tool.
func document(e *Entry, about source.Description) search.Document {
	id := e.Tool.ID.Unversioned()
	return search.Document{
		ID:                id.String(),
		Namespace:         id.Namespace,
		Name:              id.Name,
		Title:             e.Tool.Title,
		Description:       e.Tool.Description,
		Source:            about.Title,
		SourceDescription: about.Text,
		Tags:              e.Tool.Tags,
		Keywords:          e.Tool.Keywords,
		Schema:            e.Tool.InputSchema,
		ReadOnly:          e.Tool.Hints.IsReadOnly(),
		Destructive:       e.Tool.Hints.Destructive != nil && *e.Tool.Hints.Destructive,
	}
}

// order returns all ids sorted, and the fingerprint of that order. The caller must not
// hold the lock.
func (c *Catalog) order() ([]toolroom.ID, string) {
	c.mu.RLock()
	sorted, fingerprint := c.sorted, c.fingerprint
	c.mu.RUnlock()
	if sorted != nil {
		return sorted, fingerprint
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sorted == nil {
		sorted = make([]toolroom.ID, 0, len(c.offers))
		for id := range c.offers {
			sorted = append(sorted, id)
		}
		slices.SortFunc(sorted, compareIDs)
		h := sha256.New()
		for _, id := range sorted {
			h.Write([]byte(id.String()))
			h.Write([]byte{0})
		}
		c.sorted, c.fingerprint = sorted, hex.EncodeToString(h.Sum(nil)[:8])
	}
	return c.sorted, c.fingerprint
}

func compareIDs(a, b toolroom.ID) int {
	if n := strings.Compare(a.Namespace, b.Namespace); n != 0 {
		return n
	}
	return strings.Compare(a.Name, b.Name)
}

// entryOf returns the entry that serves id, or nil.
func (c *Catalog) entryOf(id toolroom.ID) *Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.serving(id)
}

// serving is like entryOf, for callers that hold the lock.
func (c *Catalog) serving(id toolroom.ID) *Entry {
	switch offers := c.offers[id]; len(offers) {
	case 0:
		return nil
	case 1:
		return offers[0]
	default:
		return c.selector(offers)
	}
}

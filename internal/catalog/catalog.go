// Package catalog holds all tools: it resolves what people and models write to
// one tool, lists, searches and describes. It knows where a tool comes from but
// not where code runs.
package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	// Provider is the name of the source in this catalog.
	Provider string
	Source   source.Source
	// ID is the canonical id as text, and ModelName the name for model APIs.
	ID, ModelName string

	input, output lazySchema
}

// lazySchema compiles at the first use: most tools of a large catalog are never
// called.
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

// Input is the compiled schema of the arguments, nil when there is none.
func (e *Entry) Input() (*schema.Schema, error) { return e.input.get(e.Tool.InputSchema) }

// Output is the compiled schema of the value, nil when there is none.
func (e *Entry) Output() (*schema.Schema, error) { return e.output.get(e.Tool.OutputSchema) }

// Selector picks the provider that serves an id when several offer it. The
// slice is never empty and in the order of registration.
type Selector func(offers []*Entry) *Entry

// Options configure a Catalog. The zero value is ready to use.
type Options struct {
	// Selector defaults to [LocalFirst].
	Selector Selector
	// Coalesce is how long changes are gathered before subscribers hear of
	// them; zero is 150 ms.
	Coalesce time.Duration
	// Schemas caches compiled schemas; nil makes a cache of its own.
	Schemas *schema.Cache
}

// schemaCache is how many compiled schemas are kept for tools that come and go
// with their sources.
const schemaCache = 4096

// Catalog is the set of all tools. Its methods are safe for concurrent use.
type Catalog struct {
	selector Selector
	schemas  *schema.Cache
	changes  *changes

	mu     sync.RWMutex
	offers map[toolroom.ID][]*Entry // by unversioned id
	// byName, byAlias and byModelName lead from other spellings to ids.
	byName      map[string][]toolroom.ID
	byAlias     map[string]toolroom.ID
	byModelName map[string]toolroom.ID
	// sorted caches all ids in order, and fingerprint names that order; both
	// are rebuilt at the first use after a change.
	sorted      []toolroom.ID
	fingerprint string
	index       *search.Index
	// shown is who serves each id that search may find, by its text. A search
	// reads it while it holds the index, which a change waits for while it holds
	// mu: so this map has no part in either lock.
	shown     sync.Map // of *Entry, by string
	providers map[string]source.Description
	// version counts the changes of entries.
	version atomic.Uint64
	meant   atomic.Pointer[meant]
}

// New makes an empty catalog.
func New(o Options) *Catalog {
	if o.Selector == nil {
		o.Selector = LocalFirst
	}
	if o.Coalesce == 0 {
		o.Coalesce = 150 * time.Millisecond
	}
	if o.Schemas == nil {
		o.Schemas = schema.NewCache(schemaCache, schema.Limits{})
	}
	return &Catalog{
		selector:    o.Selector,
		schemas:     o.Schemas,
		changes:     newChanges(o.Coalesce),
		offers:      map[toolroom.ID][]*Entry{},
		byName:      map[string][]toolroom.ID{},
		byAlias:     map[string]toolroom.ID{},
		byModelName: map[string]toolroom.ID{},
		index:       &search.Index{},
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
	case toolroom.SourceHTTP, toolroom.SourceOpenAPI, toolroom.SourceCLI:
		return 1
	default:
		return 0
	}
}

// SetProvider makes tools the whole offer of a provider: new tools are added,
// changed ones replaced, missing ones removed. Tools that are not valid are
// left out and reported in the joined error; the others are in.
func (c *Catalog) SetProvider(provider string, src source.Source, tools []toolroom.Tool) error {
	var problems []error
	var entries []*Entry // in the order of tools: who comes first has an alias
	listed := make(map[toolroom.ID]bool, len(tools))
	for i := range tools {
		e, err := c.entry(provider, src, tools[i])
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

	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := src.(source.Describer); ok {
		c.providers[provider] = d.Describe()
	} else {
		c.providers[provider] = source.Description{}
	}
	for _, id := range c.offeredBy(provider) {
		if !listed[id] {
			c.drop(provider, id)
		}
	}
	for _, e := range entries {
		if err := c.put(e); err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// Register adds or replaces one tool of a provider. An alias that is taken is
// a conflict, and nothing is registered then.
func (c *Catalog) Register(provider string, src source.Source, tool toolroom.Tool) error {
	e, err := c.entry(provider, src, tool)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.providers[provider]; !known {
		c.providers[provider] = source.Description{Kind: tool.Source}
	}
	return c.put(e)
}

// Unregister takes one tool of a provider out. It reports whether it was there.
func (c *Catalog) Unregister(provider string, id toolroom.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drop(provider, id.Unversioned())
}

// RemoveProvider takes a provider and all its tools out.
func (c *Catalog) RemoveProvider(provider string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.offeredBy(provider) {
		c.drop(provider, id)
	}
	delete(c.providers, provider)
}

// Len is how many tools there are, hidden ones included.
func (c *Catalog) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.offers)
}

// Version is another one after each change of an entry, also one that is no
// change for subscribers. What is made of entries holds for as long as it is the
// same; read it first.
func (c *Catalog) Version() uint64 { return c.version.Load() }

// Subscribe calls f with the changes of each quiet period, from one goroutine,
// until cancel is called. f must not block for long.
func (c *Catalog) Subscribe(f func([]Change)) (cancel func()) { return c.changes.subscribers.Add(f) }

func (c *Catalog) entry(provider string, src source.Source, tool toolroom.Tool) (*Entry, error) {
	if err := checkTool(&tool); err != nil {
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
	kind := ChangeRegistered
	if at := slices.IndexFunc(offers, func(o *Entry) bool { return o.Provider == e.Provider }); at >= 0 {
		if sameDefinition(&offers[at].Tool, &e.Tool) {
			// Only the source may be another one: a new connection.
			offers = slices.Clone(offers)
			offers[at] = e
			c.offers[id] = offers
			if serving := c.selector(offers); !serving.Tool.Hidden {
				c.shown.Store(id.String(), serving)
			}
			return nil
		}
		c.forgetAliases(offers[at])
		kind = ChangeUpdated
		offers = slices.Clone(offers)
		offers[at] = e
	} else {
		if len(offers) > 0 {
			kind = ChangeUpdated
		}
		offers = append(slices.Clip(offers), e)
	}
	if len(c.offers[id]) == 0 {
		c.byName[id.Name] = append(c.byName[id.Name], id)
		c.byModelName[e.ModelName] = id
		c.sorted = nil
	}
	c.offers[id] = offers
	c.keepAliases(id)
	c.reindex(id)
	c.changes.add(Change{Kind: kind, ID: id})
	return nil
}

func (c *Catalog) drop(provider string, id toolroom.ID) bool {
	offers := c.offers[id]
	at := slices.IndexFunc(offers, func(o *Entry) bool { return o.Provider == provider })
	if at < 0 {
		return false
	}
	c.version.Add(1)
	c.forgetAliases(offers[at])
	rest := slices.Delete(slices.Clone(offers), at, at+1)
	if len(rest) > 0 {
		c.offers[id] = rest
		c.keepAliases(id)
		c.reindex(id)
		c.changes.add(Change{Kind: ChangeUpdated, ID: id})
		return true
	}
	delete(c.offers, id)
	delete(c.byModelName, offers[at].ModelName)
	c.byName[id.Name] = slices.DeleteFunc(c.byName[id.Name], func(o toolroom.ID) bool { return o == id })
	if len(c.byName[id.Name]) == 0 {
		delete(c.byName, id.Name)
	}
	c.sorted = nil
	c.hide(id)
	c.changes.add(Change{Kind: ChangeRemoved, ID: id})
	return true
}

// hide takes id out of search.
func (c *Catalog) hide(id toolroom.ID) {
	c.shown.Delete(id.String())
	c.index.Delete(id.String())
}

// checkAliases refuses an alias that can already mean another tool, in
// whichever spelling.
func (c *Catalog) checkAliases(e *Entry, id toolroom.ID) error {
	for _, alias := range e.Tool.Aliases {
		holders, err := c.meanings(alias)
		if err != nil {
			return err
		}
		for _, holder := range holders {
			if holder != id {
				return toolroom.Errorf(toolroom.CodeConflict, "the alias %q of %s is taken by %s", alias, id, holder).
					WithHint("choose another alias, or leave it out")
			}
		}
	}
	return nil
}

// keepAliases enters the aliases that any provider gives id: what one of them
// takes back, another may still offer.
func (c *Catalog) keepAliases(id toolroom.ID) {
	for _, e := range c.offers[id] {
		for _, alias := range e.Tool.Aliases {
			c.byAlias[alias] = id
		}
	}
}

func (c *Catalog) forgetAliases(e *Entry) {
	for _, alias := range e.Tool.Aliases {
		if c.byAlias[alias] == e.Tool.ID.Unversioned() {
			delete(c.byAlias, alias)
		}
	}
}

// reindex brings the search index up to date with who serves id now.
func (c *Catalog) reindex(id toolroom.ID) {
	e := c.selector(c.offers[id])
	if e.Tool.Hidden {
		c.hide(id)
		return
	}
	c.shown.Store(id.String(), e)
	about := c.providers[e.Provider]
	c.index.Put(search.Document{
		ID:                id.String(),
		Namespace:         id.Namespace,
		Name:              id.Name,
		Title:             e.Tool.Title,
		Description:       e.Tool.Description,
		Source:            about.Title,
		SourceDescription: about.Text,
		Tags:              e.Tool.Tags,
		Schema:            e.Tool.InputSchema,
	})
}

// order gives all ids sorted, and the fingerprint of that order. The caller
// holds no lock.
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

// entryOf is who serves id, nil when nobody does.
func (c *Catalog) entryOf(id toolroom.ID) *Entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.serving(id)
}

// serving is entryOf for callers that hold the lock.
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

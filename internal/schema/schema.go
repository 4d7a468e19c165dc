package schema

import (
	"container/list"
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// A Schema is a compiled JSON Schema. It is safe for concurrent use; only
// checks that need the checker wait for each other.
type Schema struct {
	fast *matcher // nil if the schema is outside of what a matcher can settle

	mu      sync.Mutex // guards checker
	checker *checker
}

// options are what Compile and tests may choose.
type options struct {
	limits Limits
	// remotes are documents by URL that a reference may lead to. Only the
	// official test suite has any: the product fetches nothing.
	remotes map[string]any
	// annotateFormat leaves format unchecked, as parts of the suite want it.
	annotateFormat bool
}

// Compile reads a schema of draft 4, 6, 7, 2019-09 or 2020-12, as its $schema
// says, or of 2020-12 if it says nothing. The keyword format is asserted. A $ref
// may lead to any place of the text and to the meta-schemas of json-schema.org,
// which are built in; nothing is ever fetched.
//
// Every error is an [*Error]. A schema that compiles is checked against in
// bounded time: Compile refuses what could make that untrue.
func Compile(raw []byte, limits Limits) (*Schema, error) {
	return compile(raw, options{limits: limits.withDefaults()})
}

func compile(raw []byte, options options) (*Schema, error) {
	tree, failed := parse(raw, options)
	if failed != nil {
		return nil, failed
	}
	checker, failed := newChecker(tree, options)
	if failed != nil {
		return nil, failed
	}
	if failed := checker.checkChains(); failed != nil {
		return nil, failed
	}
	s := &Schema{fast: newMatcher(checker.root), checker: checker}
	checker.startCounting()
	return s, nil
}

// parse decodes a schema text and applies the bounds that need no compilation.
func parse(raw []byte, options options) (any, *Error) {
	tree, err := jsonx.Decode(raw, jsonx.Limits{Bytes: options.limits.Bytes, Depth: options.limits.Depth})
	if err != nil {
		return nil, &Error{Kind: Syntax, Reason: err.Error()}
	}
	switch root := tree.(type) {
	case bool:
	case map[string]any:
		dialect, ok := root["$schema"].(string)
		if ok && options.remotes == nil && !supported(dialect) {
			return nil, &Error{
				Kind: Dialect, Pointer: "/$schema",
				Reason: "dialect " + quote(dialect) + " is not supported",
				Hint:   "use https://json-schema.org/draft/2020-12/schema, or draft 2019-09, 7, 6 or 4",
			}
		}
	default:
		return nil, &Error{
			Kind: Syntax, Reason: "expected an object or a boolean, got " + describeValue(tree),
			Hint: `write a schema such as {"type": "object"}`,
		}
	}
	count := sizeCounter{limits: options.limits}
	return tree, count.count(tree, nil, 0)
}

// supported reports whether $schema names a dialect that is built in.
func supported(dialect string) bool {
	dialect = strings.TrimSuffix(dialect, "#")
	dialect = strings.TrimPrefix(strings.TrimPrefix(dialect, "https://"), "http://")
	switch dialect {
	case "json-schema.org/schema",
		"json-schema.org/draft/2020-12/schema",
		"json-schema.org/draft/2019-09/schema",
		"json-schema.org/draft-07/schema",
		"json-schema.org/draft-06/schema",
		"json-schema.org/draft-04/schema":
		return true
	}
	return false
}

// Accepts tells from the text of a document whether it is valid, without
// building anything. True is certain: the text passes jsonx.Check with its
// default limits, and Validate would find nothing. False only means that it
// takes Validate to tell.
func (s *Schema) Accepts(document []byte) bool {
	return s.fast != nil && s.fast.accepts(document)
}

// Validate checks a tree as jsonx.Decode makes it. It returns nil, a [*Failure]
// that holds the problems of the document, or an [*Error] of the kind TooLarge
// if finding them takes more than Limits.Steps.
func (s *Schema) Validate(document any) error {
	if excesses := findExcesses(document, 0); len(excesses) > 0 {
		return excessFailure(excesses)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	leaves, err := s.checker.check(document)
	if err != nil || len(leaves) == 0 {
		return err
	}
	return s.checker.explain(leaves)
}

// A Cache compiles each schema text once. It is safe for concurrent use:
// callers that request the same text at the same time wait for one compilation.
// A refused text is remembered as well.
type Cache struct {
	limits Limits
	size   int

	mu      sync.Mutex
	entries map[[sha256.Size]byte]*list.Element // of *cacheEntry
	recent  *list.List                          // the most recently used first
}

type cacheEntry struct {
	key      [sha256.Size]byte
	compiled func() (*Schema, error)
}

// NewCache returns a cache of at most size schemas, 1,000 if size is zero or
// less. It evicts the least recently used schema, which remains usable for its
// holders. One typical schema takes about 15 KB.
func NewCache(size int, limits Limits) *Cache {
	if size <= 0 {
		size = 1000
	}
	return &Cache{limits: limits, size: size, entries: map[[sha256.Size]byte]*list.Element{}, recent: list.New()}
}

// Compile is [Compile] through the cache.
func (c *Cache) Compile(raw []byte) (*Schema, error) {
	return c.entry(raw).compiled()
}

// entry finds or adds the entry of a text. It compiles nothing, so that the
// lock is short.
func (c *Cache) entry(raw []byte) *cacheEntry {
	key := sha256.Sum256(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.entries[key]; ok {
		c.recent.MoveToFront(known)
		return known.Value.(*cacheEntry)
	}
	entry := &cacheEntry{key: key}
	entry.compiled = sync.OnceValues(func() (*Schema, error) { return Compile(raw, c.limits) })
	c.entries[key] = c.recent.PushFront(entry)
	if oldest := c.recent.Back(); c.recent.Len() > c.size {
		c.recent.Remove(oldest)
		delete(c.entries, oldest.Value.(*cacheEntry).key)
	}
	return entry
}

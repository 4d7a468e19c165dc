package schema

import (
	"container/list"
	"crypto/sha256"
	"sync"
)

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

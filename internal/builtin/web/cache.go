package web

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// cache keeps the newest values for a time. (The library's expirable cache has a goroutine that
// never ends.)
type cache[T any] struct {
	ttl    time.Duration
	values *lru.Cache[string, cacheEntry[T]]
}

type cacheEntry[T any] struct {
	value T
	until time.Time
}

func newCache[T any](lasts time.Duration) *cache[T] {
	values, err := lru.New[string, cacheEntry[T]](maxCached)
	if err != nil { // the size is positive
		panic(err)
	}
	return &cache[T]{lasts, values}
}

// Get returns a value that has not expired.
func (c *cache[T]) Get(key string) (T, bool) {
	v, ok := c.values.Get(key)
	if !ok || time.Now().After(v.until) {
		var none T
		return none, false
	}
	return v.value, true
}

// Add keeps a value.
func (c *cache[T]) Add(key string, value T) {
	c.values.Add(key, cacheEntry[T]{value, time.Now().Add(c.ttl)})
}

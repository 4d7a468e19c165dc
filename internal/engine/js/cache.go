package js

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/bridge"
)

// Cache caches prepared programs, because agents run the same text repeatedly. It
// is safe for concurrent use.
type Cache struct {
	ready *lru.Cache[[sha256.Size]byte, *Program]
}

// cacheSize is how many programs a Cache holds. maxCachedProgram is the size of the largest
// program that it caches, in bytes.
const (
	cacheSize        = 256
	maxCachedProgram = 64 << 10
)

// NewCache returns an empty cache.
func NewCache() *Cache {
	ready, _ := lru.New[[sha256.Size]byte, *Program](cacheSize) // fails only if the size is zero
	return &Cache{ready}
}

// Prepare is like [Prepare], and caches the result.
func (c *Cache) Prepare(p bridge.Program) (*Program, *bridge.Failure) {
	if p.Bundled || len(p.Source) > maxCachedProgram {
		return Prepare(p)
	}
	key := keyOf(p)
	if ready, ok := c.ready.Get(key); ok {
		return ready, nil
	}
	ready, failure := Prepare(p)
	if failure == nil {
		c.ready.Add(key, ready)
	}
	return ready, failure
}

// keyOf returns a digest of everything that Prepare depends on.
func keyOf(p bridge.Program) [sha256.Size]byte {
	var k key
	k.texts(p.Language, p.Name, p.Source)
	k.truth(p.Session != "")
	k.number(len(p.Unknown))
	for _, m := range p.Unknown {
		k.texts(m.Key)
	}
	for _, t := range p.Tools {
		k.texts(t.ID, t.Kind)
		k.texts(t.Path...)
		k.number(len(t.Globals))
		for _, path := range t.Globals {
			k.texts(path...)
		}
		k.truth(t.Open)
		k.number(len(t.Parameters))
		for _, parameter := range t.Parameters {
			k.texts(parameter.Name, parameter.Type)
			k.texts(parameter.Values...)
			k.truth(parameter.Required)
		}
	}
	return sha256.Sum256(k)
}

// key is built from values, each written with its length.
type key []byte

func (k *key) number(n int) { *k = binary.AppendUvarint(*k, uint64(n)) }

func (k *key) truth(t bool) { *k = strconv.AppendBool(*k, t) }

func (k *key) texts(list ...string) {
	k.number(len(list))
	for _, text := range list {
		k.number(len(text))
		*k = append(*k, text...)
	}
}

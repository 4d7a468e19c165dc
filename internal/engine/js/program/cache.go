package program

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/bridge"
)

// Cache remembers programs that were prepared, since agents run the same text
// again and again. It may be used concurrently.
type Cache struct {
	ready *lru.Cache[[sha256.Size]byte, *Program]
}

// cached is how many programs are remembered, and maxCached how large, in
// bytes, one may be.
const (
	cached    = 256
	maxCached = 64 << 10
)

// NewCache makes an empty cache.
func NewCache() *Cache {
	ready, _ := lru.New[[sha256.Size]byte, *Program](cached) // fails for a size of zero only
	return &Cache{ready}
}

// Prepare is [Prepare], remembered.
func (c *Cache) Prepare(p bridge.Program) (*Program, *bridge.Failure) {
	if len(p.Source) > maxCached {
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

// keyOf holds all that preparing a program looks at.
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
			k.truth(parameter.Required)
		}
	}
	return sha256.Sum256(k)
}

// key grows by values, each of which tells where it ends.
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

package program

import (
	"crypto/sha256"
	"fmt"
	"io"
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
	h := sha256.New()
	inSession := strconv.FormatBool(p.Session != "")
	for _, text := range []string{p.Language, p.Name, inSession, p.Source} {
		fmt.Fprintf(h, "%d:", len(text))
		_, _ = io.WriteString(h, text) // a hash takes everything
	}
	for _, t := range p.Tools {
		fmt.Fprintf(h, "%q %q %q %q %v %v\n", t.ID, t.Kind, t.Path, t.Globals, t.Open, t.Parameters)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

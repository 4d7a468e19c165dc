// Package web provides the built-in tools that fetch pages and search the web. All connections
// pass the egress guard, which checks every redirect and every address.
package web

import (
	"cmp"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/egress"
)

// Options configure the pack.
type Options struct {
	Guard *egress.Guard
	// Servers returns the servers of a caller's background processes; see
	// [egress.Guard.WithLocal]. Nil means that there are none.
	Servers func(caller toolroom.Identity) egress.Local
	// Robots makes web:fetch respect robots.txt.
	Robots bool
	// Cache is how long a page is kept (5 min).
	Cache time.Duration
	// MaxBytes is the maximum size of a response (10 MiB).
	MaxBytes int64
	// Version is in the User-Agent.
	Version string
	// Search is the provider of searches; nil means none.
	Search *Search
}

// Defaults of Options.
const (
	defaultCache    = 5 * time.Minute
	defaultMaxBytes = 10 << 20
	maxCached       = 64
)

// Pack returns the tools.
func Pack(o Options) *builtin.Pack {
	o.Cache = cmp.Or(o.Cache, defaultCache)
	o.MaxBytes = cmp.Or(o.MaxBytes, defaultMaxBytes)
	w := &web{o: o, transport: o.Guard.WithOwn().Transport(), pages: newCache[*page](o.Cache), robots: newCache[*robots](time.Hour)}
	p := &builtin.Pack{Name: "web", Tools: []builtin.Tool{w.fetch(), w.search(), w.news()}, Close: w.close}
	if o.Search == nil {
		p.PartlyMissing = noProvider()
	}
	return p
}

type web struct {
	o         Options
	transport http.RoundTripper
	pages     *cache[*page]
	robots    *cache[*robots]
	closing   sync.Once
}

func (w *web) close() error {
	w.closing.Do(func() { closeIdle(w.transport) })
	return nil
}

func closeIdle(transport http.RoundTripper) {
	if t, ok := transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

func (w *web) userAgent() string {
	version := cmp.Or(w.o.Version, "devel")
	return "Toolroom/" + strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '-'
		}
		return r
	}, version) + " (+https://github.com/toolroom/toolroom)"
}

// connectEffects returns the predicted effect of a request to an address.
func connectEffects(method, address string) []toolroom.Effect {
	return []toolroom.Effect{{Kind: toolroom.EffectHost, Mode: strings.ToLower(method), Target: address}}
}

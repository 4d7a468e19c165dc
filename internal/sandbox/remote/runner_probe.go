package remote

import (
	"context"
	"sync"
	"time"

	"github.com/toolroom/toolroom/sandbox"
)

// probe caches the driver's probe: for good if the driver is available, otherwise for
// probeAgain.
type probe struct {
	driver sandbox.Driver
	ctx    context.Context // ends a probe

	mu    sync.Mutex
	last  sandbox.Probe
	taken time.Time
}

const (
	runnerProbeTimeout = 20 * time.Second
	probeAgain         = 15 * time.Second
)

func (p *probe) get() sandbox.Probe {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.State == sandbox.Available || !p.taken.IsZero() && time.Since(p.taken) < probeAgain {
		return p.last
	}
	ctx, done := context.WithTimeout(p.ctx, runnerProbeTimeout)
	defer done()
	p.last, p.taken = p.driver.Probe(ctx), time.Now()
	return p.last
}

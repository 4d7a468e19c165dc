package js

import (
	"context"
	"net"
	"sync"

	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// inProcess runs isolates in this process, all on one machine.
type inProcess struct {
	cacheDir string

	mu      sync.Mutex
	machine *quickjs.Service
}

// here is a worker.Place in this process.
type here struct {
	net.Conn
	ended chan struct{}
}

func (p *inProcess) start(ctx context.Context) (worker.Place, error) {
	m, err := p.open(ctx)
	if err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	h := &here{ours, make(chan struct{})}
	go func() {
		defer close(h.ended)
		defer theirs.Close()
		_ = m.Serve(context.Background(), theirs) // the stream reports how it ends
	}()
	return h, nil
}

// Isolation returns that WebAssembly isolates the program.
func (h *here) Isolation() string { return "wasm" }

// End stops serving the pipe.
func (h *here) End() {
	_ = h.Close() // a pipe in memory cannot fail to close
	<-h.ended
}

// StderrSuffix returns "", because this place has no stderr.
func (h *here) StderrSuffix() string { return "" }

func (p *inProcess) open(ctx context.Context) (*quickjs.Service, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		m, err := quickjs.Open(context.WithoutCancel(ctx), wasm.Options{CacheDir: p.cacheDir, Idle: 4})
		if err != nil {
			return nil, err
		}
		p.machine = &m
	}
	return p.machine, nil
}

func (p *inProcess) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		return nil
	}
	return p.machine.Close()
}

package js

import (
	"context"
	"net"
	"sync"

	"github.com/toolroom/toolroom/internal/engine/js/service"
	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// inProcess runs isolates in this process, all in one machine.
type inProcess struct {
	cacheDir string

	mu      sync.Mutex
	machine *service.Service
}

// here is a place in this process.
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
		_ = m.Serve(context.Background(), theirs) // how it ends is told over the stream
	}()
	return h, nil
}

// Isolation is that of WebAssembly.
func (h *here) Isolation() string { return "wasm" }

// End ends what serves the pipe.
func (h *here) End() {
	_ = h.Close() // a pipe in memory cannot fail to close
	<-h.ended
}

// LastWords are none.
func (h *here) LastWords() string { return "" }

func (p *inProcess) open(ctx context.Context) (*service.Service, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		m, err := service.Open(context.WithoutCancel(ctx), wasm.Options{CacheDir: p.cacheDir, Idle: 4})
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

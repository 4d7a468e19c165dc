package js

import (
	"context"
	"net"
	"sync"

	"github.com/toolroom/toolroom/internal/engine/prelude"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

// inProcess runs isolates in this process, all in one machine.
type inProcess struct {
	cacheDir string

	mu      sync.Mutex
	machine *quickjs.Machine
}

func (p *inProcess) start(ctx context.Context) (*worker, error) {
	m, err := p.open(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	here, there := net.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer there.Close()
		_ = serve(context.Background(), m, there) // how it ends is told over the stream
	}()
	return connect(ctx, here, &worker{
		isolation: "wasm",
		kill: func() {
			_ = here.Close() // a pipe in memory cannot fail to close
			<-ended
		},
		lastWords: func() string { return "" },
	})
}

func (p *inProcess) open(ctx context.Context) (*quickjs.Machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.machine == nil {
		m, err := quickjs.New(context.WithoutCancel(ctx), quickjs.Options{Prelude: prelude.JavaScript(), CacheDir: p.cacheDir, Idle: 4})
		if err != nil {
			return nil, err
		}
		p.machine = m
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

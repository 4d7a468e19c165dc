package remote

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/toolroom/toolroom/sandbox"
)

// box is a sandbox on a runner.
type box struct {
	client  *client
	path    string
	started Started
	stream  io.ReadWriteCloser

	mu    sync.Mutex
	ended bool
	end   End
}

func (b *box) Stream() io.ReadWriteCloser { return b.stream }

func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	for {
		if end, ok := b.known(); ok {
			return end.Exit(), nil
		}
		var end *End
		if err := b.client.do(ctx, http.MethodGet, b.path+"/exit", nil, &end); err != nil {
			return sandbox.Exit{}, err
		}
		if end != nil {
			return end.Exit(), nil
		}
	}
}

// Kill ends the sandbox. A runner that does not know it has none of it left.
func (b *box) Kill(ctx context.Context) error {
	if b.stream != nil {
		b.stream.Close()
	}
	if _, ok := b.known(); ok {
		return nil
	}
	var end End
	if err := b.client.do(ctx, http.MethodDelete, b.path, nil, &end); err != nil && !isUnknown(err) {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.end = true, end
	return nil
}

func (b *box) known() (End, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end, b.ended
}

// usageTimeout bounds the question for what a running sandbox uses.
const usageTimeout = 5 * time.Second

func (b *box) Usage() sandbox.Usage {
	end, ok := b.known()
	if !ok {
		ctx, done := context.WithTimeout(context.Background(), usageTimeout)
		defer done()
		if b.client.do(ctx, http.MethodGet, b.path+"/usage", nil, &end) != nil {
			return sandbox.Usage{} // zero is not known
		}
	}
	return end.Usage()
}

func (b *box) Isolation() string { return wall + b.started.Isolation }

func (b *box) Held() map[sandbox.Limit]string { return b.started.Held }

package remote

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/toolroom/toolroom/sandbox"
)

// instance is a sandbox on a runner.
type instance struct {
	client  *client
	path    string
	started Started
	stream  io.ReadWriteCloser

	mu    sync.Mutex
	ended bool
	end   End
}

func (b *instance) Stream() io.ReadWriteCloser { return b.stream }

func (b *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	for {
		if end, ok := b.knownEnd(); ok {
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

// Kill ends the sandbox. It succeeds if the runner does not know the sandbox.
func (b *instance) Kill(ctx context.Context) error {
	if b.stream != nil {
		b.stream.Close()
	}
	if _, ok := b.knownEnd(); ok {
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

func (b *instance) knownEnd() (End, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.end, b.ended
}

// usageTimeout bounds the request for a running sandbox's usage.
const usageTimeout = 5 * time.Second

func (b *instance) Usage() sandbox.Usage {
	end, ok := b.knownEnd()
	if !ok {
		ctx, done := context.WithTimeout(context.Background(), usageTimeout)
		defer done()
		if b.client.do(ctx, http.MethodGet, b.path+"/usage", nil, &end) != nil {
			return sandbox.Usage{} // unknown
		}
	}
	return end.Usage()
}

func (b *instance) Isolation() string {
	if b.client.local != nil {
		return b.started.Isolation
	}
	return isolationPrefix + b.started.Isolation
}

func (b *instance) Held() map[sandbox.Limit]string { return b.started.Held }

package runner

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
)

// serveStream hands the bytes of the bridge to and fro until one side ends.
func (r *Runner) serveStream(w http.ResponseWriter, q *request) {
	run := r.find(w, q)
	if run == nil {
		return
	}
	if !strings.EqualFold(q.Header.Get("Upgrade"), remote.Protocol) {
		fail(w, toolroom.Errorf(toolroom.CodeInvalidArguments, "a stream is an upgrade to %s", remote.Protocol).
			WithHint("a proxy between client and runner must pass the header Upgrade on"))
		return
	}
	if err := run.attach(); err != nil {
		fail(w, err)
		return
	}
	defer run.detach(r.o.Grace)
	conn, buffered, err := http.NewResponseController(w).Hijack() // no deadline is left
	if err != nil {
		fail(w, toolroom.Errorf(toolroom.CodeInternal, "the connection cannot be taken over: %w", err))
		return
	}
	stream := run.box.Stream()
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", remote.Protocol); err != nil {
		return
	}
	stop := context.AfterFunc(r.ctx, func() { conn.Close() })
	defer stop()
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = io.Copy(conn, stream)
		conn.Close()
	})
	_, _ = io.Copy(stream, buffered)
	stream.Close()
	conn.Close()
	copying.Wait()
}

// detach leaves the sandbox to its client for a last word: how it ended.
func (u *run) detach(grace time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attached, u.streamed, u.deadline = false, true, time.Now().Add(grace)
}

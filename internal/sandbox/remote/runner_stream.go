package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// serveStream copies the bytes of the bridge in both directions until one side ends.
func (r *Runner) serveStream(w http.ResponseWriter, q *request) {
	run := r.find(w, q)
	if run == nil {
		return
	}
	if !strings.EqualFold(q.Header.Get("Upgrade"), Protocol) {
		fail(w, toolroom.Errorf(toolroom.CodeInvalidArguments, "the request for a stream must be an upgrade to %s", Protocol).
			WithHint("a proxy between client and runner must forward the header Upgrade"))
		return
	}
	if err := run.attach(); err != nil {
		fail(w, err)
		return
	}
	defer run.detach(r.o.Grace)
	conn, buffered, err := http.NewResponseController(w).Hijack() // removes all deadlines
	if err != nil {
		fail(w, toolroom.Errorf(toolroom.CodeInternal, "cannot take over the connection: %w", err))
		return
	}
	stream := run.sandbox.Stream()
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", Protocol); err != nil {
		return
	}
	var copying sync.WaitGroup
	watching, stop := context.WithCancel(r.ctx)
	copying.Go(func() {
		waitClosed(watching, conn)
		stream.Close()
		conn.Close()
	})
	copying.Go(func() {
		_, _ = io.Copy(conn, stream)
		conn.Close()
	})
	_, _ = io.Copy(stream, buffered)
	// A guest that reads no more may have output left: wait until that has ended, or the
	// client's connection.
	_, _ = io.Copy(io.Discard, buffered)
	stop()
	copying.Wait()
}

// connCheckPeriod is the interval at which a client's connection is checked.
const connCheckPeriod = time.Second

// waitClosed waits until ctx is done or the connection has ended. Reading would notice the
// end, but a guest that does not read blocks reading.
func waitClosed(ctx context.Context, conn net.Conn) {
	tick := time.NewTicker(connCheckPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if IsDisconnected(conn) {
				return
			}
		}
	}
}

// detach gives the client some time to ask how the sandbox ended.
func (u *run) detach(grace time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attached, u.streamed, u.deadline = false, true, time.Now().Add(grace)
}

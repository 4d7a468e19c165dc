package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

const eventStream = "text/event-stream"

// stream writes server-sent events. When idle, it writes comments, so that proxies
// keep the connection and a client that has gone is noticed.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	stop chan struct{}
	done sync.WaitGroup

	mu sync.Mutex
}

// openStream begins the response. The handler must close the stream before it returns.
func openStream(w http.ResponseWriter, keepAlive time.Duration) *stream {
	h := w.Header()
	h.Set("Content-Type", eventStream)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would buffer events
	w.WriteHeader(http.StatusOK)
	s := &stream{w: w, rc: http.NewResponseController(w), stop: make(chan struct{})}
	s.write(": toolroom\n\n")
	s.done.Go(func() {
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.write(": alive\n\n")
			case <-s.stop:
				return
			}
		}
	})
	return s
}

func (s *stream) close() {
	close(s.stop)
	s.done.Wait()
}

// event sends one event. An error means that the client has gone.
func (s *stream) event(e *toolroom.Event) error { return s.send(string(e.Kind), e) }

func (s *stream) send(name string, data any) error {
	body, err := jsonx.Marshal(data)
	if err != nil { // a tool sent a chunk or value that is not JSON
		body, err = jsonx.Marshal(map[string]any{"message": "encode the event: " + err.Error()})
		if err != nil {
			return err
		}
	}
	return s.write(fmt.Sprintf("event: %s\ndata: %s\n\n", name, body))
}

func (s *stream) write(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}

// streamCall runs a call and sends its events. The tool blocks while the client does
// not read; when the client goes away, the call is cancelled.
func (s *Server) streamCall(ctx context.Context, d *Delivery, call toolroom.Call) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := openStream(d.w, s.o.KeepAlive)
	defer out.close()
	leave := func() {}
	defer func() { leave() }()
	for e := range s.o.Runner.Stream(ctx, call) {
		if e.Kind == toolroom.EventCalled {
			leave = s.running.add(e.Call, call.Identity, cancel)
		}
		if out.event(&e) != nil {
			return
		}
	}
}

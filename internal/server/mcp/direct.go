package mcpserver

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// direct is a call that this server serves itself, without the SDK. Most calls
// end soon and silently, and their answer is one piece of JSON. A call that tells
// its client something before that, asks it, fails, or takes long is handed over:
// the SDK gets the request, makes a stream of the answer, and what it calls back
// waits for the call that runs already.
type direct struct {
	s *Server
	// cancel ends the call.
	cancel context.CancelFunc
	// give gives the request, which bears a name, to the SDK. It returns when the
	// SDK is done with it, or has taken it in.
	give func(name string)
	// gone is closed when the SDK will call back no more.
	gone chan struct{}
	meta json.RawMessage

	mu    sync.Mutex
	stage stage

	joined chan struct{} // closed when voice is set
	voice  voice
	done   chan struct{} // closed when result and err are set
	result mcp.Result
	err    error
}

type stage int

const (
	quiet stage = iota // nobody has heard of the call
	handed
	answered
)

// quietTime is how long a client hears nothing of a call before its answer
// becomes a stream, which networks do not cut and clients can come back to. Much
// less would be dear: the SDK takes as much work as the call, so that a machine
// with too much to do, where all calls are late, would get twice of it.
const quietTime = 2 * time.Second

// parked is what waits for the SDK to call back for a message that we have read.
type parked struct {
	meta json.RawMessage
	more json.RawMessage
	// arguments are those of a prompt.
	arguments json.RawMessage
	params    json.RawMessage // nil where the SDK alone has read the message
	answers   map[string]json.RawMessage
	id        json.RawMessage
	known     *session                                                        // nil for none
	join      func(context.Context, *mcp.CallToolRequest) (mcp.Result, error) // nil: only meta
}

// within is the context of a message: its client can end it, and say why, before
// the SDK hears of it.
func (p *parked) within(ctx context.Context) (of context.Context, leave func()) {
	of, cancel := context.WithCancelCause(ctx)
	if p.known == nil || !p.known.enter(p.id, cancel) {
		return of, func() { cancel(nil) }
	}
	return of, func() {
		p.known.leave(p.id)
		cancel(nil)
	}
}

// parking holds what is parked, by name.
type parking struct{ byName sync.Map }

func (p *parking) put(name string, what parked) { p.byName.Store(name, what) }

// take gives what a message that came through the SDK is about.
func (p *parking) take(meta mcp.Meta) (parked, bool) {
	name, ok := meta[parkedKey].(string)
	if !ok {
		return parked{}, false
	}
	what, ok := p.byName.LoadAndDelete(name)
	if !ok {
		return parked{}, false
	}
	return what.(parked), true
}

func (p *parking) drop(name string) { p.byName.Delete(name) }

// serve runs the call and reports whether its answer is still the caller's to
// write; otherwise the SDK has written it.
func (d *direct) serve(ctx context.Context, req *toolRequest) (mcp.Result, bool) {
	d.joined, d.done, d.gone = make(chan struct{}), make(chan struct{}), make(chan struct{})
	req.speak = d.speak
	late := time.AfterFunc(quietTime, func() { d.handOver() })
	result, err := d.s.guard("tools/call", func() (mcp.Result, error) { return d.s.call(ctx, req) })
	late.Stop()
	if d.end(err) {
		return result, true
	}
	d.result, d.err = result, err
	close(d.done)
	<-d.gone
	return nil, false
}

// end ends the quiet time. It reports whether the call was silent and has a
// result: errors are the SDK's to put into words, statuses and headers.
func (d *direct) end(err error) bool {
	d.mu.Lock()
	if d.stage == quiet && err == nil {
		d.stage = answered
		d.mu.Unlock()
		return true
	}
	d.mu.Unlock()
	d.handOver()
	return false
}

// handOver gives the request to the SDK, once, and reports whether the SDK has it.
func (d *direct) handOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stage != quiet {
		return d.stage == handed
	}
	d.stage = handed
	name := parkedName()
	d.s.parking.put(name, parked{meta: d.meta, join: d.join})
	go func() {
		defer close(d.gone)
		defer d.s.parking.drop(name)
		d.give(name)
	}()
	return true
}

// speak is a peer's.
func (d *direct) speak() (voice, bool) {
	if !d.handOver() {
		return voice{}, false
	}
	select {
	case <-d.joined:
		return d.voice, true
	case <-d.gone:
	}
	select {
	case <-d.joined:
		return d.voice, true
	default:
		return voice{}, false
	}
}

// join is what the SDK calls back.
func (d *direct) join(ctx context.Context, req *mcp.CallToolRequest) (mcp.Result, error) {
	d.voice = voice{ctx, req.Session}
	close(d.joined)
	select {
	case <-d.done:
	case <-ctx.Done():
		d.cancel()
		<-d.done
	}
	return d.result, d.err
}

package room

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

const (
	// listTimeout bounds one listing of a source, its start included.
	listTimeout = 90 * time.Second
	// drainTimeout is how long a source that is taken out may finish its calls.
	drainTimeout = 30 * time.Second
	// relistPause is how long a list is taken for the newest there is.
	relistPause = 5 * time.Second
	// Pauses between attempts to list a source that was never listed, and so has no
	// tool whose call would find out that it is well again: the first and the
	// longest, and how much shorter one is than the time since all was well. A
	// fault of a moment is over at once, and a server that is gone for days has
	// peace; a call for a tool of it looks at once.
	firstRelist = time.Second
	lastRelist  = 5 * time.Minute
	relistShare = 20
)

// host keeps one configured source in the catalog: it lists the tools, again
// after each change, and lets calls finish before the source is closed.
type host struct {
	name    string
	digest  string // of the configuration that it was built from
	src     source.Source
	catalog *catalog.Catalog
	cache   *listCache
	masker  *secret.Masker
	// admit gives of the tools that the source lists those that the catalog
	// holds; nil holds all.
	admit   func(context.Context, []toolroom.Tool) []toolroom.Tool
	log     *slog.Logger
	library *library.Library
	plain   bool // prompts have their bare names
	own     bool // added by the program, not by the config

	ctx    context.Context // ends when the host closes
	cancel context.CancelFunc
	work   sync.WaitGroup
	calls  inFlight

	// admitting keeps one list from overtaking another on its way to the catalog.
	admitting sync.Mutex

	mu      sync.Mutex
	current *listing // the last attempt, or the one under way
	again   bool     // something changed during the attempt under way
	listed  bool
	closed  bool
	tools   []toolroom.Tool // as last listed
}

// listing is one attempt to list a source's tools.
type listing struct {
	began time.Time
	done  chan struct{}
	err   error
}

func (l *listing) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// newHost begins to keep a host whose parts, down to own, are set.
func newHost(h *host) *host {
	h.ctx, h.cancel = context.WithCancel(context.Background())
	if w, ok := source.As[source.Watcher](h.src); ok {
		w.Watch(func(uri string, said json.RawMessage) { h.library.Updated(h.name, uri, said) })
	}
	if n, ok := source.As[source.Noticer](h.src); ok {
		n.Notices(func(n source.Notice) { h.library.Notice(h.name, n) })
	}
	if n, ok := h.src.(source.Notifier); ok {
		n.Notify(func() { h.start(true) })
	}
	if tools, ok := h.cache.read(); ok {
		h.put(tools)
		h.listed = true
	}
	return h
}

// load waits until the tools are known, listing them when they are not.
func (h *host) load(ctx context.Context) error {
	h.mu.Lock()
	listed := h.listed
	h.mu.Unlock()
	if listed {
		return nil
	}
	return h.list(ctx)
}

// relist lists the tools again, unless that was done a moment ago: callers who
// keep asking for a tool that is not there do not keep the source busy.
func (h *host) relist(ctx context.Context) error {
	h.mu.Lock()
	pause, err := relistPause, error(nil)
	if h.current != nil && h.current.over() && h.current.err != nil {
		pause = firstRelist
	}
	recent := h.current != nil && h.current.over() && time.Since(h.current.began) < pause
	if recent {
		err = h.current.err
	}
	h.mu.Unlock()
	if recent {
		return err
	}
	return h.list(ctx)
}

// list lists the tools now and waits for the end.
func (h *host) list(ctx context.Context) error {
	l := h.start(false)
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start begins an attempt, or joins the one under way. With changed set, an
// attempt under way is followed by another: it may have read the old list.
func (h *host) start(changed bool) *listing {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.current != nil && !h.current.over() {
		h.again = h.again || changed
		return h.current
	}
	l := &listing{began: time.Now(), done: make(chan struct{})}
	if h.closed {
		l.err = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s has been taken out", h.name)
		close(l.done)
		return l
	}
	h.current = l
	h.work.Go(func() {
		if err := h.fetch(); err != nil {
			l.err = h.masker.Error(toolroom.AsError(err))
		}
		close(l.done)
		h.mu.Lock()
		again := h.again
		h.again = false
		h.mu.Unlock()
		if again && h.ctx.Err() == nil {
			h.start(false)
		}
	})
	return l
}

func (h *host) fetch() error {
	ctx, cancel := context.WithTimeout(h.ctx, listTimeout)
	defer cancel()
	tools, err := h.src.Tools(ctx)
	if err != nil {
		return err
	}
	if h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	offer := h.offer(ctx)
	if h.ctx.Err() != nil {
		return h.ctx.Err()
	}
	tools = append(tools, h.libraryTools(offer, h.Describe().Kind)...)
	h.put(tools)
	h.library.Set(h.name, offer)
	h.mu.Lock()
	h.listed = true
	h.mu.Unlock()
	if err := h.cache.write(tools); err != nil {
		h.log.Warn("the tool list was not kept", "source", h.name, "error", err)
	}
	return nil
}

func (h *host) put(tools []toolroom.Tool) {
	tools = maskedTools(h.masker, tools)
	h.mu.Lock()
	h.tools = tools
	h.mu.Unlock()
	h.readmit()
}

// listedTools are what the source last listed.
func (h *host) listedTools() []toolroom.Tool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tools
}

// readmit puts what the source last listed, and may be seen, into the catalog.
func (h *host) readmit() {
	h.admitting.Lock()
	defer h.admitting.Unlock()
	tools := h.listedTools()
	if h.admit != nil {
		tools = h.admit(h.ctx, tools)
	}
	if err := h.catalog.SetProvider(h.name, h, tools); err != nil {
		h.log.Warn("some tools were left out", "source", h.name, "error", err)
	}
}

// maskedTools are tools that show no secret in what they say of themselves.
func maskedTools(m *secret.Masker, tools []toolroom.Tool) []toolroom.Tool {
	out := slices.Clone(tools)
	for i := range out {
		t := &out[i]
		t.Title, t.Description, t.Notes = m.Text(t.Title), m.Text(t.Description), m.Text(t.Notes)
		t.InputSchema, t.OutputSchema, t.Raw = m.Mask(t.InputSchema), m.Mask(t.OutputSchema), m.Mask(t.Raw)
	}
	return out
}

// keepListed lists the source until that has worked once, with growing pauses.
func (h *host) keepListed() {
	h.work.Go(func() {
		said, began := "", time.Now()
		for {
			err := h.list(h.ctx)
			if err == nil || h.ctx.Err() != nil {
				return
			}
			if err.Error() != said {
				said = err.Error()
				h.log.Warn("a source cannot be listed; it will be tried again", "source", h.name, "error", err)
			}
			pause := min(max(time.Since(began)/relistShare, firstRelist), lastRelist)
			select {
			case <-time.After(pause + rand.N(pause/4)): // so that many sources do not come as one
			case <-h.ctx.Done():
				return
			}
		}
	})
}

// Tools, Call, Describe and Close make the host itself the source that the
// catalog holds, so that it can count the calls.

// Tools lists the source.
func (h *host) Tools(ctx context.Context) ([]toolroom.Tool, error) { return h.src.Tools(ctx) }

// Call calls the source, unless it has been taken out.
func (h *host) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	if !h.calls.enter() {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s has been taken out", h.name)
	}
	defer h.calls.leave()
	if out, ok, err := h.read(ctx, req); ok {
		return out, err
	}
	return h.src.Call(ctx, req)
}

// Stops passes on what the source promises.
func (h *host) Stops() bool {
	s, ok := source.As[source.Stopper](h.src)
	return ok && s.Stops()
}

// Describe says what the source is.
func (h *host) Describe() source.Description {
	if d, ok := h.src.(source.Describer); ok {
		described := d.Describe()
		described.Text, described.Reason = h.masker.Text(described.Text), h.masker.Text(described.Reason)
		return described
	}
	return source.Description{State: "ready"}
}

// Refine asks a source that learns of its tools when asked.
func (h *host) Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error) {
	if f, ok := h.src.(source.Refiner); ok {
		return f.Refine(ctx, id)
	}
	return toolroom.Tool{}, source.ErrNotRefined
}

// status is how the source is, for people.
func (h *host) status() SourceStatus {
	d := h.Describe()
	s := SourceStatus{Name: h.name, Kind: d.Kind, State: d.State, Reason: d.Reason, Process: d.Process}
	h.mu.Lock()
	current, listed := h.current, h.listed
	h.mu.Unlock()
	if current != nil && current.over() && current.err != nil {
		s.Error, s.Stale = current.err.Error(), listed
		if s.State == "" || s.State == "ready" || s.State == "idle" {
			s.State = "failing"
		}
		var e *toolroom.Error
		if errors.As(current.err, &e) && e.Hint != "" {
			s.Reason = e.Hint
		}
	}
	s.Listed = listed
	return s
}

// Close takes the source out: no new calls, those in flight may finish, then
// everything that it started is ended.
func (h *host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.calls.drain(drainTimeout)
	h.cancel()
	err := h.src.Close()
	h.work.Wait()
	return err
}

// inFlight counts calls so that they can be waited for.
type inFlight struct {
	mu     sync.Mutex
	n      int
	closed bool
	empty  chan struct{} // closed when n falls to zero after the end began
}

func (f *inFlight) enter() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.n++
	return true
}

func (f *inFlight) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n--
	if f.n == 0 && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
}

func (f *inFlight) some() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n > 0
}

func (f *inFlight) drain(most time.Duration) {
	f.mu.Lock()
	f.closed = true
	if f.n == 0 {
		f.mu.Unlock()
		return
	}
	empty := make(chan struct{})
	f.empty = empty
	f.mu.Unlock()
	select {
	case <-empty:
	case <-time.After(most):
	}
}

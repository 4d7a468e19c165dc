package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

const (
	// listTimeout limits one listing of a source, including its start.
	listTimeout = 90 * time.Second
	// drainTimeout is the time that a removed source has to finish its calls.
	drainTimeout = 30 * time.Second
	// relistPause is how long a list counts as current.
	relistPause = 5 * time.Second
	// Pauses between attempts to list a source that was never listed. Such a source has no
	// tools, so no call would find out that it works again. firstRelist and maxRelist are
	// the shortest and the longest pause; each pause is a fraction of the time since the
	// source last worked. A short fault ends quickly, and a server that is down for days is
	// not bothered. A call of one of its tools tries at once.
	firstRelist = time.Second
	lastRelist  = 5 * time.Minute
	relistShare = 20
)

// sourceManager keeps one configured source connected, listed and in the catalog. It lists
// the tools again after each change, and lets calls finish before it closes the source.
type sourceManager struct {
	name           string
	digest         string // of the configuration that the source was built from
	protectedFiles string // as returned by [App.protectedFilesStamp]
	src            source.Source
	catalog        *catalog.Catalog
	cache          *listCache
	redactor       *secret.Redactor
	// admit returns the listed tools that may be in the catalog. If it returns an error as
	// well, it is called again later. Nil admits all.
	admit func(context.Context, []toolroom.Tool) ([]toolroom.Tool, error)
	// quarantined returns the version of a tool that the source offers, and why it is
	// quarantined. It is nil if every definition is released automatically.
	quarantined func(id toolroom.ID) release.Offered
	log         *slog.Logger
	library     *catalog.Library
	plain       bool // prompts are shown under their bare names
	fromProgram bool // added by the Go program, not by the config

	ctx    context.Context // ends when the manager is closed
	cancel context.CancelFunc
	work   sync.WaitGroup
	calls  inFlight

	// admitting prevents an older list from overwriting a newer one in the catalog. It
	// guards retrying.
	admitting sync.Mutex
	retrying  bool // the tools will be filtered again

	mu        sync.Mutex
	current   *listing // the last or current attempt
	listAgain bool     // something has changed during the current attempt
	listed    bool
	fetched   bool // listed by this process, not read from the cache
	// outdated is the time of the list if an earlier process made it and it is old, else
	// zero.
	outdated time.Time
	closed   bool
	tools    []toolroom.Tool // as last listed
	failed   *cachedFailure  // the last attempt of an earlier process, or nil
	rejected []string        // the tools that the catalog did not take, with the reasons
}

// listing is one attempt to list a source's tools.
type listing struct {
	began time.Time
	ended chan struct{}
	err   error
}

func (l *listing) done() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// newManager completes and returns a manager whose fields down to fromProgram are set.
func newManager(m *sourceManager) *sourceManager {
	m.ctx, m.cancel = context.WithCancel(context.Background())
	if n, ok := source.As[source.Notifier](m.src); ok {
		n.Notify(source.Events{
			ToolsChanged:    func() { m.startListing(true) },
			ResourceChanged: func(uri string, params json.RawMessage) { m.library.ReportUpdate(m.name, uri, params) },
			Notified: func(n source.Notification) {
				m.library.Notifications.Notify(catalog.Notification{Notification: n, Provider: m.name})
			},
		})
	}
	return m
}

// publish puts the list of an earlier process into the catalog, and reads the failure of
// that process.
func (m *sourceManager) publish() {
	failed := m.cache.failure()
	m.mu.Lock()
	m.failed = failed
	m.mu.Unlock()
	if tools, outdated, ok := m.cache.read(); ok {
		m.setTools(tools)
		m.mu.Lock()
		m.listed, m.outdated = true, outdated
		m.mu.Unlock()
	}
}

// retire prevents further changes of the catalog by the manager. The catalog may then have
// the list of its successor.
func (m *sourceManager) retire() {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.cancel() // of listings; calls have contexts of their own
}

// unlessRetired runs f, which changes the catalog or the library, and reports false if the
// manager has been retired.
func (m *sourceManager) unlessRetired(f func()) bool {
	m.admitting.Lock()
	defer m.admitting.Unlock()
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if !closed {
		f()
	}
	return !closed
}

// load waits until the tools are known. It lists them if necessary. If there is an outdated
// list, it waits only a while for a newer one.
func (m *sourceManager) load(ctx context.Context) error {
	m.mu.Lock()
	listed, outdated := m.listed, !m.outdated.IsZero()
	m.mu.Unlock()
	switch {
	case !listed:
		return m.list(ctx)
	case outdated:
		l := m.startListing(false)
		select {
		case <-l.ended:
		case <-time.After(refreshWait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// relist lists the tools again, unless that happened a moment ago: repeated calls of an
// unknown tool must not keep the source busy.
func (m *sourceManager) relist(ctx context.Context) error {
	m.mu.Lock()
	pause, err := relistPause, error(nil)
	if m.current != nil && m.current.done() && m.current.err != nil {
		pause = firstRelist
	}
	recent := m.current != nil && m.current.done() && time.Since(m.current.began) < pause
	if recent {
		err = m.current.err
	}
	m.mu.Unlock()
	if recent {
		return err
	}
	return m.list(ctx)
}

// list lists the tools now and waits for the result.
func (m *sourceManager) list(ctx context.Context) error {
	l := m.startListing(false)
	select {
	case <-l.ended:
		return l.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startListing starts an attempt or joins the current one. If changed is set, another attempt
// follows the current one, which may have read the old list.
func (m *sourceManager) startListing(changed bool) *listing {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current != nil && !m.current.done() {
		m.listAgain = m.listAgain || changed
		return m.current
	}
	l := &listing{began: time.Now(), ended: make(chan struct{})}
	if m.closed {
		l.err = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "source %s was removed", m.name)
		close(l.ended)
		return l
	}
	m.current = l
	m.work.Go(func() {
		var err error
		if panicked := panics.Catch(func() { err = m.fetchTools() }); panicked != nil {
			err = toolroom.Errorf(toolroom.CodeInternal, "cannot list the tools of source %s: %w", m.name, panicked)
		}
		if err != nil {
			failure := m.redactor.Error(toolroom.AsError(err))
			l.err = failure
			if m.ctx.Err() == nil {
				if err := m.cache.writeFailure(failure); err != nil {
					m.log.Warn("cannot store why a source failed", "source", m.name, "error", err)
				}
			}
		}
		// Both under one lock. Otherwise another attempt could begin in between, and this one
		// would remove the mark of a change that the other has not seen.
		m.mu.Lock()
		close(l.ended)
		again := m.listAgain
		m.listAgain = false
		m.mu.Unlock()
		if again && m.ctx.Err() == nil {
			m.startListing(false)
		}
	})
	return l
}

func (m *sourceManager) fetchTools() error {
	ctx, cancel := context.WithTimeout(m.ctx, listTimeout)
	defer cancel()
	tools, err := m.src.Tools(ctx)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && m.ctx.Err() == nil {
		return toolroom.Errorf(toolroom.CodeOf(err), "source %s did not list its tools within %s", m.name, listTimeout).
			WithCLIHint("toolroom sources test %s", m.name)
	}
	if err != nil {
		return err
	}
	if m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	offer := m.listLibrary(ctx)
	if m.ctx.Err() != nil {
		return m.ctx.Err()
	}
	// These names are of our own tools, whose definitions are judged by other rules.
	tools = slices.DeleteFunc(tools, hasOurName)
	tools = append(tools, m.libraryTools(offer, m.Describe().Kind)...)
	tools = m.setTools(tools)
	if !m.unlessRetired(func() { m.library.Set(m.name, offer) }) {
		return context.Canceled
	}
	m.mu.Lock()
	m.listed, m.fetched, m.outdated = true, true, time.Time{}
	m.mu.Unlock()
	if err := m.cache.write(tools); err != nil {
		m.log.Warn("cannot cache the tool list", "source", m.name, "error", err)
	}
	return nil
}

// setTools makes tools, redacted, the list of the source, and returns it.
func (m *sourceManager) setTools(tools []toolroom.Tool) []toolroom.Tool {
	tools = redactedTools(m.redactor, tools)
	m.mu.Lock()
	m.tools = tools
	m.mu.Unlock()
	m.readmit()
	return tools
}

// listedTools returns the tools of the last list.
func (m *sourceManager) listedTools() []toolroom.Tool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tools
}

// readmit filters the last list again and updates the catalog. After an error it is tried
// again in the background until it succeeds.
func (m *sourceManager) readmit() {
	m.unlessRetired(func() {
		if err := m.filter(); err != nil && !m.retrying {
			m.log.Error("cannot compare the tools of a source with their versions; new and changed ones are quarantined until that succeeds", "source", m.name, "error", err)
			m.retrying = true
			m.work.Go(m.retryFilter)
		}
	})
}

// filter is readmit without retries. The caller holds admitting.
func (m *sourceManager) filter() (failed error) {
	tools := m.listedTools()
	if m.admit != nil {
		tools, failed = m.admit(m.ctx, tools)
	}
	err := m.catalog.SetProvider(m.name, m, tools)
	var rejected []string
	if err != nil {
		m.log.Warn("some tools were rejected", "source", m.name, "error", err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok { // one for each tool
			for _, one := range joined.Unwrap() {
				rejected = append(rejected, one.Error())
			}
		}
	}
	m.mu.Lock()
	m.rejected = rejected
	m.mu.Unlock()
	return failed
}

// leftOut names the tools of the last list that are not in the catalog, with the reasons.
func (m *sourceManager) leftOut() []string {
	out := slices.Clone(m.Describe().LeftOut)
	m.mu.Lock()
	out = append(out, m.rejected...)
	// The policy of definitions has taken the second one of a name before the catalog.
	seen := map[toolroom.ID]bool{}
	for _, t := range m.tools {
		id := t.ID.Unversioned()
		twice := fmt.Sprintf("source %s lists the tool %s twice", m.name, id)
		if seen[id] && !slices.Contains(out, twice) {
			out = append(out, twice)
		}
		seen[id] = true
	}
	m.mu.Unlock()
	for i := range out {
		out[i] = m.redactor.Text(out[i])
	}
	return out
}

// Pauses before the tools of a source are filtered again.
const (
	firstRetry = 50 * time.Millisecond
	lastRetry  = 10 * time.Second
)

func (m *sourceManager) retryFilter() {
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		select {
		case <-time.After(pause):
		case <-m.ctx.Done():
			return
		}
		failing := false
		m.unlessRetired(func() {
			failing = m.filter() != nil
			m.retrying = failing
		})
		if !failing {
			return
		}
	}
}

// redactedTools returns tools whose definitions are redacted.
func redactedTools(by *secret.Redactor, tools []toolroom.Tool) []toolroom.Tool {
	out := slices.Clone(tools)
	for i := range out {
		t := &out[i]
		t.Title, t.Description, t.Notes = by.Text(t.Title), by.Text(t.Description), by.Text(t.Notes)
		t.InputSchema, t.OutputSchema, t.Raw = by.Redact(t.InputSchema), by.Redact(t.OutputSchema), by.Redact(t.Raw)
	}
	return out
}

// listUntilSuccess tries to list the source, with growing pauses, until it succeeds once.
func (m *sourceManager) listUntilSuccess() {
	m.work.Go(func() {
		said, began := "", time.Now()
		for {
			err := m.list(m.ctx)
			if err == nil || m.ctx.Err() != nil {
				return
			}
			if err.Error() != said {
				said = err.Error()
				m.log.Warn("cannot list a source; will retry", "source", m.name, "error", err)
			}
			pause := min(max(time.Since(began)/relistShare, firstRelist), lastRelist)
			select {
			case <-time.After(pause + rand.N(pause/4)): // so that many sources do not retry at the same time
			case <-m.ctx.Done():
				return
			}
		}
	})
}

// Tools, Call, Describe and Close make the manager itself the source in the catalog, so
// that it can count the calls.

// Tools lists the source's tools.
func (m *sourceManager) Tools(ctx context.Context) ([]toolroom.Tool, error) { return m.src.Tools(ctx) }

// Call calls the source, unless it has been removed.
func (m *sourceManager) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	return m.call(ctx, req, 0)
}

// call calls the source if the tool is not quarantined. If version is not zero, the call is
// a trial of that version, which must be the offered one.
func (m *sourceManager) call(ctx context.Context, req *source.Request, version int) (*source.Output, error) {
	if !m.calls.enter() {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "source %s was removed", m.name)
	}
	defer m.calls.leave()
	if err := m.checkDefinition(ctx, req.Tool, version); err != nil {
		return &source.Output{Unsent: true, Effects: toolroom.EffectsNone}, err
	}
	if out, ok, err := m.readLibrary(ctx, req); ok {
		return out, err
	}
	return m.src.Call(ctx, req)
}

// checkDefinition lists the source before the first call of this process, because the
// source may have changed since an earlier process listed it, and returns an error if the
// tool is quarantined. If the source cannot be listed, there is nothing to compare, and the
// call proceeds.
func (m *sourceManager) checkDefinition(ctx context.Context, id toolroom.ID, version int) error {
	if m.quarantined == nil {
		return nil
	}
	m.mu.Lock()
	fetched := m.fetched
	m.mu.Unlock()
	if !fetched {
		if err := m.relist(ctx); err != nil {
			m.log.Debug("cannot compare the definition of a tool", "source", m.name, "tool", id.String(), "error", err)
		}
	}
	switch o := m.quarantined(id); {
	case version != 0 && version != o.Version:
		return toolroom.Errorf(toolroom.CodeConflict, "%s offers version %d of %s, and version %d no longer", m.name, o.Version, id.Unversioned(), version)
	case version == 0 && o.Quarantined != "":
		return toolroom.Errorf(toolroom.CodeDenied, "%s is quarantined: %s", id, o.Quarantined).
			WithHint("a person must look at the difference and release it").WithCLIHint("see the difference, and how to release it: toolroom tool diff %s", id.Unversioned())
	}
	return nil
}

// Unwrap returns the source.
func (m *sourceManager) Unwrap() source.Source { return m.src }

// Describe returns the source's description.
func (m *sourceManager) Describe() source.Description {
	if d, ok := source.As[source.Describer](m.src); ok {
		described := d.Describe()
		described.Text, described.Reason = m.redactor.Text(described.Text), m.redactor.Text(described.Reason)
		return described
	}
	return source.Description{State: "ready"}
}

// status returns the source's status for people.
func (m *sourceManager) status() source.Status {
	d := m.Describe()
	s := source.Status{Name: m.name, Kind: d.Kind, State: d.State, Reason: d.Reason, Process: d.Process, Output: d.Output}
	m.mu.Lock()
	current, listed, kept := m.current, m.listed, m.failed
	m.mu.Unlock()
	if current != nil && current.done() && current.err != nil {
		s.Error, s.Stale = current.err.Error(), listed
		if s.State == "" || s.State == "ready" || s.State == "idle" {
			s.State = "failing"
		}
		if e, ok := errors.AsType[*toolroom.Error](current.err); ok && e.Hints() != "" {
			s.Reason = cmp.Or(e.CLIHint, e.Hint)
		}
	}
	if current == nil && !listed && kept != nil {
		s.Error, s.State = fmt.Sprintf("%s (tried at %s)", kept.Error, kept.Time.Local().Format(time.DateTime)), "failing"
		s.Reason = cmp.Or(kept.Hint, s.Reason)
	}
	s.Listed = listed
	return s
}

// Close removes the source: it refuses new calls, lets current ones finish and then ends
// everything that the source has started. It returns an error if the source does not end
// within closeTimeout.
func (m *sourceManager) Close() error {
	m.retire()
	m.calls.drain(drainTimeout)
	ended := make(chan error, 1)
	go func() {
		var err error
		panics.Log(m.log, "closing source "+m.name, func() { err = m.src.Close() })
		m.work.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		return err
	case <-time.After(closeTimeout):
		m.log.Error("a source does not end and is left behind", "source", m.name, "waited", closeTimeout)
		return toolroom.Errorf(toolroom.CodeTimeout, "the source %s did not end within %s", m.name, closeTimeout)
	}
}

// inFlight counts running calls, so that Close can wait for them.
type inFlight struct {
	mu     sync.Mutex
	n      int
	closed bool
	empty  chan struct{} // closed when n reaches zero after drain has begun
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

// drain waits until no call is running, at most for the given time.
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

// Package browser provides the built-in tools that drive a web browser: a Chromium of its
// own for each session of each identity. Tools see a page as its accessibility tree, whose
// elements have references. All connections of the browser pass the egress guard.
package browser

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

// Options configure the pack.
type Options struct {
	// Guard decides about every connection of the browsers.
	Guard *egress.Guard
	// Servers returns the servers of a caller's background processes; see
	// [egress.Guard.WithLocal]. Nil means that there are none.
	Servers func(caller toolroom.Identity) egress.Local
	// Path is the path of Chromium; empty searches the PATH of Environ.
	Path string
	// Environ is the environment of this process.
	Environ []string
	// Owner labels processes; see [proc.Owner].
	Owner string
	// Scratch is an existing folder for profiles and downloads, with a short path; empty is
	// the system's for temporary files. State is the folder for checkpoints.
	Scratch, State string
	// Idle is how long an unused browser lives (10 min).
	Idle time.Duration
	// Max is the maximum number of browsers (4).
	Max int
	// MaxDownload is the maximum size of a download in bytes (100 MiB).
	MaxDownload int64
	// Key returns the key (32 bytes) that seals checkpoints.
	Key func() ([]byte, error)
	// Artifacts keeps downloads and long trees.
	Artifacts *artifact.Store
	// Secrets redacts long trees before they are kept; nil redacts nothing.
	Secrets *secret.Redactor
	Log     *slog.Logger
}

// Defaults of Options.
const (
	defaultIdle     = 10 * time.Minute
	defaultMax      = 4
	defaultDownload = 100 << 20
)

// maxWindows is the maximum number of windows of one browser. Further ones are closed.
const maxWindows = 8

// Pack returns the tools.
func Pack(o Options) *builtin.Pack {
	o.Idle = cmp.Or(o.Idle, defaultIdle)
	o.Max = cmp.Or(o.Max, defaultMax)
	o.MaxDownload = cmp.Or(o.MaxDownload, defaultDownload)
	if o.Scratch == "" {
		o.Scratch = scratch()
	}
	b := &browsers{o: o, open: map[key]*browser{}}
	var missing *toolroom.Error
	b.path, missing = findChromium(o.Path, o.Environ)
	if b.path != "" {
		removeLeftovers(b.o.Scratch)
	}
	return &builtin.Pack{Name: "browser", Missing: missing, Weakness: weakness(os.Geteuid() == 0), Close: b.close, Tools: []builtin.Tool{
		b.navigate(), b.snapshot(), b.find(), b.click(), b.typeTool(), b.waitFor(), b.assert(), b.content(), b.extract(), b.screenshot(), b.eval(),
		b.saveTool(), b.resumeTool(), b.tabsTool(), b.closeTool(),
	}}
}

// weakness returns a warning that Chromium runs without its sandbox as root, or nil.
func weakness(root bool) *toolroom.Error {
	if !root {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "Toolroom runs as root, so Chromium runs without its own sandbox: a page that breaks out of its renderer is root on this machine").
		WithHint("run Toolroom as another user, or in a container of its own")
}

// key identifies the session to which a browser belongs. The identity is an [identity.Owner],
// because a browser holds logins.
type key struct{ identity, session string }

// browsers are the browsers of all sessions.
type browsers struct {
	o    Options
	path string

	mu     sync.Mutex
	open   map[key]*browser
	closed bool
	ending sync.WaitGroup // browsers that are being ended
}

func keyOf(req *source.Request) key { return key{identity.Owner(req.Identity), req.Session} }

// acquire returns the browser of a call's session for exclusive use. If there is none and
// create is set, it starts one. The caller must call the returned function when it is done.
func (b *browsers) acquire(ctx context.Context, req *source.Request, create bool) (*browser, func(), error) {
	for {
		w, err := b.findOrCreate(req, create)
		if err != nil {
			return nil, nil, err
		}
		select {
		case w.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		w.idle.Stop()
		done := func() {
			w.used = time.Now()
			w.idle.Reset(b.o.Idle)
			<-w.turn
		}
		if w.gone { // it ended while this call waited
			done()
			continue
		}
		if w.process != nil && w.process.hasEnded() {
			err := w.process.failure(w.process.err)
			b.end(w)
			done()
			if create {
				continue
			}
			return nil, nil, err
		}
		if w.process == nil {
			if err := w.start(ctx); err != nil {
				b.end(w)
				done()
				return nil, nil, err
			}
		}
		return w, done, nil
	}
}

func (b *browsers) findOrCreate(req *source.Request, create bool) (*browser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := keyOf(req)
	w := b.open[k]
	switch {
	case b.closed:
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the browser tools are closing")
	case w != nil:
		return w, nil
	case !create:
		return nil, noPageError()
	case len(b.open) >= b.o.Max:
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "%d browsers are open, which is the limit", len(b.open)).
			WithHint("close one with browser:close, or wait until an unused one ends (%s); the limit is builtin.browser.max in toolroom.yaml", b.o.Idle)
	}
	w = newBrowser(b, k, req.Identity)
	w.idle = time.AfterFunc(b.o.Idle, func() { b.endIdle(w) })
	b.open[k] = w
	return w, nil
}

func noPageError() *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeNotFound, "this session has no open page").WithHint("open one with browser:navigate")
}

// endIdle ends a browser that no call uses, and that none has used since its timer ended.
func (b *browsers) endIdle(w *browser) {
	select {
	case w.turn <- struct{}{}:
		if left := b.o.Idle - time.Since(w.used); left > 0 {
			w.idle.Reset(left)
		} else {
			b.end(w)
		}
		<-w.turn
	default:
		w.idle.Reset(b.o.Idle)
	}
}

// end ends a browser. The caller has acquired it.
func (b *browsers) end(w *browser) {
	b.mu.Lock()
	if b.open[w.key] == w {
		delete(b.open, w.key)
	}
	b.ending.Add(1)
	b.mu.Unlock()
	defer b.ending.Done()
	w.gone = true
	w.idle.Stop()
	if w.process != nil {
		w.process.close()
	}
}

// close ends all browsers. The pack ends all calls before it calls close.
func (b *browsers) close() error {
	b.mu.Lock()
	b.closed = true
	var all []*browser
	for _, w := range b.open {
		all = append(all, w)
	}
	b.mu.Unlock()
	var ending sync.WaitGroup
	for _, w := range all {
		ending.Go(func() {
			w.turn <- struct{}{}
			b.end(w)
			<-w.turn
		})
	}
	ending.Wait()
	b.ending.Wait()
	return nil
}

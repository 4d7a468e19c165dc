package browser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/toolroom/toolroom"
)

// startTimeout bounds the start of Chromium, which takes long on a busy machine.
const startTimeout = 60 * time.Second

// browser is the browser of one session. Calls use it one at a time; see [browsers.acquire].
type browser struct {
	owner *browsers
	// caller is the identity that started it. Others that share it have the same key.
	caller toolroom.Identity
	key    key
	turn   chan struct{}
	idle   *time.Timer

	// These belong to the call that has acquired the browser.
	process    *process
	gone       bool      // it has ended
	used       time.Time // when the last call ended
	refs       references
	shownTrees map[target.ID]tree // the tree of each tab that a result last showed

	// mu guards the fields that events change and predictions of effects read.
	mu        sync.Mutex
	selected  *tab
	targets   map[string]*frames // by session
	tabs      []*tab
	lastTab   int
	changed   chan struct{} // closed and replaced with each event
	news      news
	downloads map[string]*download
	answer    dialogAnswer
}

// tab is a page of the browser.
type tab struct {
	*frames
	number int
	ready  bool // its frames are known, and it runs
}

// frames are the frames of one target: a tab, or a frame that runs in another process.
type frames struct {
	session
	id     target.ID
	isTab  bool
	parent string // the session that attached it
	// within is the frame of the parent that contains this one.
	within cdp.FrameID
	byID   map[cdp.FrameID]*frame
	order  []cdp.FrameID
	gone   bool
}

// frame is one document.
type frame struct {
	id, parent cdp.FrameID
	loader     cdp.LoaderID
	url        string
	loading    bool // it is loading, or about to
}

// news is what happened since the call began.
type news struct {
	dialogs []Dialog
	opened  []*tab
	closed  int      // windows closed because there were too many
	refused []string // what the guard refused
	hosts   map[string]error
}

// dialogAnswer is the answer to dialogs that a page opens.
type dialogAnswer struct {
	accept bool
	text   string
}

func newBrowser(b *browsers, k key, caller toolroom.Identity) *browser {
	return &browser{
		owner: b, key: k, caller: caller, turn: make(chan struct{}, 1), shownTrees: map[target.ID]tree{}, refs: newReferences(),
		targets: map[string]*frames{}, changed: make(chan struct{}), downloads: map[string]*download{},
	}
}

// root returns the session of the browser itself.
func (w *browser) root() session { return session{w.process.conn, ""} }

// start starts Chromium, and waits for its first tab.
func (w *browser) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("timed out"))
	defer cancel()
	// Events come as soon as it runs, but need w.process.
	ready := make(chan struct{})
	p, err := w.owner.startChromium(ctx, w.owner.guard(w.caller), w.noteRefused, func(session, method string, params jsonv2.Value) {
		<-ready
		w.handleEvent(session, method, params)
	})
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Chromium cannot be started: %w", err).WithCLIHint("toolroom doctor checks Chromium")
	}
	w.process = p
	close(ready)
	filter := target.Filter{{Type: "page"}, {Type: "iframe"}}
	_, err = cdp.Call(ctx, w.root(), target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: filter})
	if err == nil {
		_, err = cdp.Call(ctx, w.root(), cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
			Behavior: cdpbrowser.SetDownloadBehaviorBehaviorAllowAndName, DownloadPath: p.downloadFolder(), EventsEnabled: new(true),
		})
	}
	if err == nil {
		err = w.await(ctx, func() bool { return len(w.tabs) > 0 && w.tabs[0].ready })
	}
	switch {
	case err == nil:
		w.mu.Lock()
		w.selected = w.tabs[0]
		w.mu.Unlock()
		w.takeNews()
		return nil
	case p.hasEnded():
		return p.failure(p.err)
	default:
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Chromium does not start: %w (%s)", err, p.output.lastLine()).WithCLIHint("toolroom doctor checks Chromium")
	}
}

// await waits until ready, which is called with mu held, returns true.
func (w *browser) await(ctx context.Context, ready func() bool) error {
	for {
		w.mu.Lock()
		ok, changed := ready(), w.changed
		w.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-w.process.done:
			return w.process.failure(w.process.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notify wakes the calls of await. The caller holds mu.
func (w *browser) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *browser) noteRefused(host string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := toolroom.AsError(err).Message
	if len(w.news.hosts) < 20 && w.news.hosts[host] == nil {
		if w.news.hosts == nil {
			w.news.hosts = map[string]error{}
		}
		w.news.hosts[host] = err
		w.news.refused = append(w.news.refused, text)
	}
	w.notify()
}

// takeNews returns the news and clears it.
func (w *browser) takeNews() news {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.news
	w.news = news{}
	return n
}

func decode[E any](_ cdp.Event[E], params jsonv2.Value) (E, bool) {
	var e E
	err := jsonv2.Unmarshal(params, &e, jsonOptions)
	return e, err == nil
}

// handleEvent handles one event. It calls the browser only from other goroutines, because the
// response could not be read while it runs.
func (w *browser) handleEvent(id, method string, params jsonv2.Value) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.notify()
	switch method {
	case target.AttachedToTarget.Method:
		if e, ok := decode(target.AttachedToTarget, params); ok {
			w.handleAttached(id, e)
		}
		return
	case target.DetachedFromTarget.Method:
		if e, ok := decode(target.DetachedFromTarget, params); ok {
			w.handleDetached(string(e.SessionID))
		}
		return
	case cdpbrowser.DownloadWillBegin.Method:
		if e, ok := decode(cdpbrowser.DownloadWillBegin, params); ok {
			w.downloads[e.GUID] = &download{guid: e.GUID, name: e.SuggestedFilename, url: e.URL, path: w.process.downloadPath(e.GUID)}
		}
		return
	case cdpbrowser.DownloadProgress.Method:
		if e, ok := decode(cdpbrowser.DownloadProgress, params); ok {
			w.noteProgress(e)
		}
		return
	}
	f := w.targets[id]
	if f == nil {
		return
	}
	switch method {
	case page.JavascriptDialogOpening.Method:
		if e, ok := decode(page.JavascriptDialogOpening, params); ok {
			w.handleDialog(f, e)
		}
	case page.FrameAttached.Method:
		if e, ok := decode(page.FrameAttached, params); ok {
			f.add(e.FrameID).parent = e.ParentFrameID
		}
	case page.FrameDetached.Method:
		if e, ok := decode(page.FrameDetached, params); ok {
			f.remove(e.FrameID)
		}
	case page.FrameNavigated.Method:
		if e, ok := decode(page.FrameNavigated, params); ok {
			f.put(e.Frame)
		}
	case page.NavigatedWithinDocument.Method:
		if e, ok := decode(page.NavigatedWithinDocument, params); ok {
			f.add(e.FrameID).url = e.URL
		}
	case page.FrameRequestedNavigation.Method:
		if e, ok := decode(page.FrameRequestedNavigation, params); ok && e.Disposition == page.ClientNavigationDispositionCurrentTab {
			f.add(e.FrameID).loading = true
		}
	case page.FrameStartedLoading.Method:
		if e, ok := decode(page.FrameStartedLoading, params); ok {
			f.add(e.FrameID).loading = true
		}
	case page.FrameStoppedLoading.Method:
		if e, ok := decode(page.FrameStoppedLoading, params); ok {
			f.add(e.FrameID).loading = false
		}
	}
}

func (f *frames) add(id cdp.FrameID) *frame {
	if f.byID[id] == nil {
		f.byID[id] = &frame{id: id}
		f.order = append(f.order, id)
	}
	return f.byID[id]
}

func (f *frames) put(of *cdp.Frame) {
	to := f.add(of.ID)
	to.parent, to.loader, to.url = of.ParentID, of.LoaderID, of.URL+of.URLFragment
	if of.UnreachableURL != "" {
		to.url = of.UnreachableURL
	}
}

func (f *frames) remove(id cdp.FrameID) {
	delete(f.byID, id)
	f.order = slices.DeleteFunc(f.order, func(other cdp.FrameID) bool { return other == id })
	for _, child := range slices.Clone(f.order) {
		if c := f.byID[child]; c != nil && c.parent == id {
			f.remove(child)
		}
	}
}

// main returns the main frame of a target. The caller holds mu.
func (f *frames) main() *frame {
	if found := f.byID[cdp.FrameID(f.id)]; found != nil {
		return found
	}
	return &frame{id: cdp.FrameID(f.id)}
}

// handleAttached registers a new tab or frame, which waits until initTarget lets it run.
func (w *browser) handleAttached(by string, e target.EventAttachedToTarget) {
	f := &frames{
		session: session{w.process.conn, string(e.SessionID)}, id: e.TargetInfo.TargetID, isTab: e.TargetInfo.Type == "page",
		parent: by, within: e.TargetInfo.ParentFrameID, byID: map[cdp.FrameID]*frame{},
	}
	if !f.isTab {
		w.targets[f.session.id] = f
		go w.initTarget(f, nil)
		return
	}
	if len(w.tabs) >= maxWindows {
		w.news.closed++
		go func() {
			_, _ = cdp.Call(context.Background(), w.root(), target.CloseTarget, target.CloseTargetParams{TargetID: f.id})
		}()
		return
	}
	w.targets[f.session.id] = f
	w.lastTab++
	t := &tab{frames: f, number: w.lastTab}
	w.tabs = append(w.tabs, t)
	w.news.opened = append(w.news.opened, t)
	go w.initTarget(f, t)
}

// initTarget reads the frames of a target and lets it run. It ignores errors, which mean that
// the target has ended.
func (w *browser) initTarget(f *frames, t *tab) {
	// A target that waits may answer only when it runs.
	f.post(page.Enable.Method, page.EnableParams{})
	f.post(target.SetAutoAttach.Method, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: target.Filter{{Type: "iframe"}},
	})
	f.post(emulation.SetFocusEmulationEnabled.Method, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	f.post(runtime.RunIfWaitingForDebugger.Method, cdp.Empty{})
	got, err := cdp.Call(context.Background(), f, page.GetFrameTree, cdp.Empty{})
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.notify()
	if err == nil {
		f.putTree(got.FrameTree)
	}
	if t != nil {
		t.ready = true
	}
}

func (f *frames) putTree(t *page.FrameTree) {
	if known := f.byID[t.Frame.ID]; known == nil || known.loader == "" {
		f.put(t.Frame)
	}
	for _, child := range t.ChildFrames {
		f.putTree(child)
	}
}

// handleDetached removes a target that has ended, and the frames in it.
func (w *browser) handleDetached(id string) {
	f := w.targets[id]
	if f == nil {
		return
	}
	f.gone = true
	delete(w.targets, id)
	w.tabs = slices.DeleteFunc(w.tabs, func(t *tab) bool { return t.frames == f })
	w.news.opened = slices.DeleteFunc(w.news.opened, func(t *tab) bool { return t.frames == f })
	for child, c := range w.targets {
		if c.parent == id {
			w.handleDetached(child)
		}
	}
}

// handleDialog answers a dialog, so that the page continues.
func (w *browser) handleDialog(f *frames, e page.EventJavascriptDialogOpening) {
	d := Dialog{Kind: string(e.Type), Message: truncate(e.Message, 1000), Accepted: w.answer.accept}
	if e.Type == page.DialogTypeAlert || e.Type == page.DialogTypeBeforeunload {
		d.Accepted = true
	}
	if len(w.news.dialogs) < 20 {
		w.news.dialogs = append(w.news.dialogs, d)
	}
	text := ""
	if d.Accepted && e.Type == page.DialogTypePrompt {
		text = w.answer.text
	}
	go func() {
		_, _ = cdp.Call(context.Background(), f, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: d.Accepted, PromptText: text})
	}()
}

// tab returns the selected tab, or the last one if that was closed.
func (w *browser) tab() (*tab, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.selected != nil && !w.selected.gone {
		return w.selected, nil
	}
	if len(w.tabs) == 0 {
		return nil, noPageError()
	}
	w.selected = w.tabs[len(w.tabs)-1]
	return w.selected, nil
}

// Dialog is a dialog that a page opened.
type Dialog struct {
	Kind     string `json:"kind" jsonschema:"alert, confirm, prompt or beforeunload"`
	Message  string `json:"message" jsonschema:"what it says"`
	Accepted bool   `json:"accepted" jsonschema:"it was accepted, not dismissed"`
}

func truncate(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return toValid(text[:limit]) + "…"
}

func (t *tab) String() string { return fmt.Sprintf("tab %d", t.number) }

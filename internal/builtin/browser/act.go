package browser

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/toolroom/toolroom"
)

// Limits of waiting for a page.
const (
	loadTimeout  = 30 * time.Second // for a page to load
	quietTimeout = 3 * time.Second  // for a loaded page to come to rest
	quietFor     = 120 * time.Millisecond
)

// isolatedWorld is the name of the JavaScript world in which these tools run their scripts. A
// page cannot replace functions there.
const isolatedWorld = "toolroom"

// element is an element of a page that can be acted on.
type element struct {
	place
	name   string // as the caller wrote it
	object runtime.RemoteObjectID
}

// locate finds the element that a reference or a CSS selector names.
func (w *browser) locate(ctx context.Context, t *tab, ref, selector string) (*element, error) {
	if (ref == "") == (selector == "") {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "give either ref or selector").
			WithHint("ref is a reference such as e12 from browser:snapshot, selector a CSS selector")
	}
	if selector != "" {
		return w.query(ctx, t, selector)
	}
	p, err := w.refs.find(ref)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	ok := w.isCurrent(p)
	w.mu.Unlock()
	if !ok {
		return nil, staleError(ref, "its page has gone")
	}
	return w.resolve(ctx, p, ref)
}

// resolve returns the element at a place. The error says if the element is gone.
func (w *browser) resolve(ctx context.Context, p place, name string) (*element, error) {
	made, err := cdp.Call(ctx, p.frames, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: p.frame, WorldName: isolatedWorld})
	if err != nil {
		return nil, w.lostElementError(ctx, name, err)
	}
	got, err := cdp.Call(ctx, p.frames, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: p.node, ExecutionContextID: made.ExecutionContextID, ObjectGroup: isolatedWorld})
	if err != nil {
		return nil, w.lostElementError(ctx, name, err)
	}
	e := &element{place: p, name: name, object: got.Object.ObjectID}
	var connected bool
	if err := e.do(ctx, &connected, `function() { return this.isConnected }`); err != nil {
		return nil, w.lostElementError(ctx, name, err)
	}
	if !connected {
		return nil, staleError(name, "its element has been removed")
	}
	return e, nil
}

// lostElementError returns the error for an element that can no longer be reached.
func (w *browser) lostElementError(ctx context.Context, name string, err error) error {
	if _, ok := errors.AsType[*messageError](err); ctx.Err() == nil && ok {
		return staleError(name, "its element has gone")
	}
	return w.commandError(ctx, err)
}

// commandError returns the error of a call for a command of the browser that failed, or nil if
// err is nil.
func (w *browser) commandError(ctx context.Context, err error) error {
	var known *toolroom.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case w.process.hasEnded():
		return w.process.failure(w.process.err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the browser: %w", err)
}

// do calls a JavaScript function on the element and decodes its result.
func (e *element) do(ctx context.Context, result any, function string, args ...any) error {
	return callFunction(ctx, e.frames, e.object, 0, result, function, args...)
}

func callFunction(ctx context.Context, s cdp.Session, object runtime.RemoteObjectID, world runtime.ExecutionContextID, result any, function string, args ...any) error {
	// The arguments are one array, because empty ones would be left out.
	all, err := jsonv2.Marshal(append([]any{""}, args...), jsonOptions)
	if err != nil {
		return err
	}
	function = "function(args) { return (" + function + ").apply(this, args.slice(1)) }"
	p := runtime.CallFunctionOnParams{FunctionDeclaration: function, ObjectID: object, ExecutionContextID: world, ReturnByValue: new(true), AwaitPromise: new(true), UserGesture: new(true)}
	p.Arguments = []*runtime.CallArgument{{Value: all}}
	got, err := cdp.Call(ctx, s, runtime.CallFunctionOn, p)
	if err != nil {
		return err
	}
	if got.ExceptionDetails != nil {
		return exceptionError(got.ExceptionDetails)
	}
	if result == nil || len(got.Result.Value) == 0 {
		return nil
	}
	return jsonv2.Unmarshal(got.Result.Value, result, jsonOptions)
}

// exceptionError returns the error of a JavaScript exception.
func exceptionError(e *runtime.ExceptionDetails) *toolroom.Error {
	message := e.Text
	if e.Exception != nil && e.Exception.Description != "" {
		message = e.Exception.Description
	} else if e.Exception != nil && len(e.Exception.Value) > 0 {
		message = "uncaught " + string(e.Exception.Value)
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "JavaScript: %s", truncate(message, 2000)).WithHint("correct the expression")
}

// evaluate calls a function in the tools' world of a frame.
func (w *browser) evaluate(ctx context.Context, f *frames, id cdp.FrameID, result any, function string, args ...any) error {
	made, err := cdp.Call(ctx, f, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: id, WorldName: isolatedWorld})
	if err != nil {
		return err
	}
	return callFunction(ctx, f, "", made.ExecutionContextID, result, function, args...)
}

// findElements is a script that finds elements by a CSS selector, also in open shadow roots.
const findElements = `function(selector, index) {
	const found = [];
	const visit = root => {
		found.push(...root.querySelectorAll(selector));
		for (const e of root.querySelectorAll('*')) if (e.shadowRoot) visit(e.shadowRoot);
	};
	visit(document);
	return index < 0 ? found.length : found[index];
}`

// query finds the only element that matches a CSS selector, in all frames.
func (w *browser) query(ctx context.Context, t *tab, selector string) (*element, error) {
	var found *element
	count := 0
	for _, c := range w.framesOf(t) {
		made, err := cdp.Call(ctx, c.frames, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: c.id, WorldName: isolatedWorld})
		if err != nil {
			continue // the frame has gone
		}
		n := 0
		if err := callFunction(ctx, c.frames, "", made.ExecutionContextID, &n, findElements, selector, -1); err != nil {
			if _, ok := errors.AsType[*toolroom.Error](err); ok {
				return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a CSS selector", truncate(selector, 200)).WithHint("write it like #id, .class or button[type=submit]")
			}
			continue
		}
		if count += n; n == 0 || found != nil {
			continue
		}
		got, err := cdp.Call(ctx, c.frames, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
			FunctionDeclaration: findElements, ExecutionContextID: made.ExecutionContextID, ObjectGroup: isolatedWorld,
			Arguments: []*runtime.CallArgument{{Value: quote(selector)}, {Value: jsonv2.Value("0")}},
		})
		if err != nil || got.Result.ObjectID == "" {
			continue
		}
		node, err := cdp.Call(ctx, c.frames, dom.DescribeNode, dom.DescribeNodeParams{ObjectID: got.Result.ObjectID})
		if err != nil {
			continue
		}
		w.mu.Lock()
		p := place{frames: c.frames, frame: c.id, node: node.Node.BackendNodeID}
		if f := c.frames.byID[c.id]; f != nil {
			p.loader = f.loader
		}
		w.mu.Unlock()
		found = &element{place: p, name: selector, object: got.Result.ObjectID}
	}
	switch {
	case ctx.Err() != nil:
		return nil, w.commandError(ctx, ctx.Err())
	case found == nil:
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "no element matches %q", truncate(selector, 200)).WithHint("look at the page with browser:snapshot, and use a reference")
	case count > 1:
		return nil, toolroom.Errorf(toolroom.CodeConflict, "%d elements match %q", count, truncate(selector, 200)).WithHint("use a narrower selector, or a reference from browser:snapshot")
	}
	return found, nil
}

func quote(s string) jsonv2.Value {
	text, _ := jsonv2.Marshal(s, jsonOptions) // a string can always be written
	return text
}

// framesOf returns all frames of a tab, the main one first.
func (w *browser) framesOf(t *tab) []child {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []child
	var visit func(f *frames)
	visit = func(f *frames) {
		for _, id := range f.order {
			if len(all) < maxFrames {
				all = append(all, child{f, id})
			}
		}
		for _, other := range w.targets {
			if other.parent == f.session.id && !other.isTab {
				visit(other)
			}
		}
	}
	visit(t.frames)
	return all
}

// clickPoint returns where to click an element, in the coordinates of the tab.
func (w *browser) clickPoint(ctx context.Context, t *tab, e *element) (x, y float64, err error) {
	if _, err := cdp.Call(ctx, e.frames, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{ObjectID: e.object}); err != nil {
		return 0, 0, w.invisibleError(ctx, e, err)
	}
	got, err := cdp.Call(ctx, e.frames, dom.GetContentQuads, dom.GetContentQuadsParams{ObjectID: e.object})
	if err != nil {
		return 0, 0, w.invisibleError(ctx, e, err)
	}
	found := false
	for _, q := range got.Quads {
		if len(q) == 8 && quadArea(q) >= 1 {
			x, y, found = (q[0]+q[2]+q[4]+q[6])/4, (q[1]+q[3]+q[5]+q[7])/4, true
			break
		}
	}
	if !found {
		return 0, 0, w.invisibleError(ctx, e, nil)
	}
	// Frames in other processes have coordinates of their own.
	for f := e.frames; !f.isTab; {
		w.mu.Lock()
		parent := w.targets[f.parent]
		w.mu.Unlock()
		if parent == nil {
			return 0, 0, staleError(e.name, "its frame has gone")
		}
		owner, err := cdp.Call(ctx, parent, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: cdp.FrameID(f.id)})
		if err != nil {
			return 0, 0, w.lostElementError(ctx, e.name, err)
		}
		if _, err := cdp.Call(ctx, parent, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: owner.BackendNodeID}); err != nil {
			return 0, 0, w.invisibleError(ctx, e, err)
		}
		box, err := cdp.Call(ctx, parent, dom.GetBoxModel, dom.GetBoxModelParams{BackendNodeID: owner.BackendNodeID})
		if err != nil || len(box.Model.Content) < 2 {
			return 0, 0, w.invisibleError(ctx, e, err)
		}
		x, y, f = x+box.Model.Content[0], y+box.Model.Content[1], parent
	}
	return x, y, nil
}

func quadArea(q dom.Quad) float64 {
	sum := 0.0
	for i := range 4 {
		j := (i + 1) % 4
		sum += q[2*i]*q[2*j+1] - q[2*j]*q[2*i+1]
	}
	return max(sum, -sum) / 2
}

func (w *browser) invisibleError(ctx context.Context, e *element, err error) error {
	if _, ok := errors.AsType[*messageError](err); err != nil && !ok {
		return w.commandError(ctx, err)
	}
	return toolroom.Errorf(toolroom.CodeConflict, "%s is not visible", e.name).WithHint("do what makes it visible first, such as opening its menu; browser:snapshot shows the page")
}

// findCover is a script that describes what covers the middle of an element, if anything does.
const findCover = `function() {
	const box = this.getBoundingClientRect();
	if (!this.ownerDocument.defaultView) return '';
	let hit = null, root = this.getRootNode();
	const rects = this.getClientRects();
	const r = rects.length ? rects[0] : box;
	hit = root.elementFromPoint ? root.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2) : null;
	if (!hit || hit === this || this.contains(hit) || hit.contains(this)) return '';
	for (let h = hit.getRootNode().host; h; h = h.getRootNode().host) if (h === this) return '';
	if (this.shadowRoot && this.shadowRoot.contains(hit)) return '';
	const label = hit.closest('label');
	if (label && (label.control === this || label.contains(this))) return '';
	return '<' + hit.tagName.toLowerCase() + (hit.id ? ' id=' + hit.id : '') + '> ' + (hit.innerText || '').slice(0, 60);
}`

// clickElement clicks an element with the mouse.
func (w *browser) clickElement(ctx context.Context, t *tab, e *element, button input.MouseButton, count int64) error {
	disabled := false
	if err := e.do(ctx, &disabled, `function() { return !!this.disabled }`); err != nil {
		return w.lostElementError(ctx, e.name, err)
	}
	if disabled {
		return toolroom.Errorf(toolroom.CodeConflict, "%s is disabled", e.name).WithHint("do what enables it first")
	}
	x, y, err := w.clickPoint(ctx, t, e)
	if err != nil {
		return err
	}
	cover := ""
	if err := e.do(ctx, &cover, findCover); err != nil {
		return w.lostElementError(ctx, e.name, err)
	}
	if cover != "" {
		return toolroom.Errorf(toolroom.CodeConflict, "%s is covered by %s", e.name, strings.TrimSpace(cover)).WithHint("close what covers it first")
	}
	event := input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y}
	if _, err := cdp.Call(ctx, t, input.DispatchMouseEvent, event); err != nil {
		return w.commandError(ctx, err)
	}
	event.Button = button
	for i := range count {
		event.ClickCount = i + 1
		event.Type = input.DispatchMouseEventTypeMousePressed
		if _, err := cdp.Call(ctx, t, input.DispatchMouseEvent, event); err != nil {
			return w.commandError(ctx, err)
		}
		event.Type = input.DispatchMouseEventTypeMouseReleased
		if _, err := cdp.Call(ctx, t, input.DispatchMouseEvent, event); err != nil {
			return w.commandError(ctx, err)
		}
	}
	return nil
}

// waitAfterAction waits until a tab has loaded and stopped changing after an action. The wait
// is limited, because a page may never stop changing.
func (w *browser) waitAfterAction(ctx context.Context, t *tab) error {
	return w.waitForRest(ctx, t, false)
}

// waitBeforeReading is like waitAfterAction, for a call that only reads. It returns at once if
// the page was at rest after the last action and has not changed for a while.
func (w *browser) waitBeforeReading(ctx context.Context, t *tab) error {
	return w.waitForRest(ctx, t, true)
}

// awaitQuiet is a script that waits until a document has not changed for some time. If looks is
// set, the time before the call counts too, provided that the document was at rest.
var awaitQuiet = fmt.Sprintf(`function(looks) {
	const seen = globalThis.toolroomSeen ??= {changed: 0, rested: false, waiting: new Set()};
	if (!seen.watch) {
		seen.watch = new MutationObserver(() => { seen.changed = performance.now(); for (const again of seen.waiting) again() });
		seen.watch.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
	}
	if (looks && seen.rested && performance.now() - seen.changed >= %[1]d) return;
	seen.rested = false;
	return new Promise(done => {
		const end = () => { seen.waiting.delete(again); clearTimeout(timer); clearTimeout(last); seen.rested = true; done() };
		const again = () => { clearTimeout(timer); timer = setTimeout(end, %[1]d) };
		let timer = setTimeout(end, %[1]d);
		const last = setTimeout(end, %[2]d);
		seen.waiting.add(again);
	});
}`, quietFor.Milliseconds(), quietTimeout.Milliseconds())

// waitForRest waits until a tab has loaded and stopped changing, or loadTimeout is over.
// readOnly is true if the call has not changed the page.
func (w *browser) waitForRest(ctx context.Context, t *tab, readOnly bool) error {
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, loadTimeout, errSlow)
	defer cancel()
	for {
		err := w.await(ctx, func() bool {
			return t.gone || !w.isLoading(t.frames) && !w.isDownloading() && t.ready
		})
		if err == nil && !t.gone {
			quietly, stop := context.WithTimeoutCause(ctx, quietTimeout+2*time.Second, errSlow)
			err = w.evaluate(quietly, t.frames, cdp.FrameID(t.id), nil, awaitQuiet, readOnly)
			stop()
			if _, ok := errors.AsType[*messageError](err); ok { // the page has navigated
				w.mu.Lock()
				again := w.isLoading(t.frames)
				w.mu.Unlock()
				if again {
					continue
				}
				err = nil
			}
		}
		switch {
		case outer.Err() != nil:
			return context.Cause(outer)
		case errors.Is(err, errSlow):
			return nil // what is there is shown
		}
		if err != nil {
			return w.commandError(outer, err)
		}
		w.mu.Lock()
		again := (w.isLoading(t.frames) || w.isDownloading()) && !t.gone
		w.mu.Unlock()
		if !again {
			return nil
		}
	}
}

var errSlow = errors.New("too slow")

// isLoading reports whether a frame of a target is loading. The caller holds mu.
func (w *browser) isLoading(f *frames) bool {
	for _, one := range f.byID {
		if one.loading {
			return true
		}
	}
	for _, other := range w.targets {
		if other.parent == f.session.id && !other.isTab && w.isLoading(other) {
			return true
		}
	}
	return false
}

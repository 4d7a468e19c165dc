package browser

import (
	"context"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// TypeArgs are the arguments of browser:type.
type TypeArgs struct {
	Target
	Text   string `json:"text,omitempty" jsonschema:"text for the field, the option of a select box, or the value of a date, colour or range"`
	Append bool   `json:"append,omitempty" jsonschema:"keep what the field holds, and add to it"`
	Submit bool   `json:"submit,omitempty" jsonschema:"press Enter afterwards"`
	Key    string `json:"key,omitempty" jsonschema:"a key to press afterwards; without an element it goes to the one that has the focus"`
	Answer
}

// keys are the keys that browser:type can press.
var keys = map[string]struct {
	code int64
	text string
}{
	"Enter": {13, "\r"}, "Tab": {9, ""}, "Escape": {27, ""}, "Backspace": {8, ""}, "Delete": {46, ""}, "ArrowLeft": {37, ""}, "ArrowUp": {38, ""},
	"ArrowRight": {39, ""}, "ArrowDown": {40, ""}, "Home": {36, ""}, "End": {35, ""}, "PageUp": {33, ""}, "PageDown": {34, ""}, "Space": {32, " "},
}

var keyNames = []string{"Enter", "Tab", "Escape", "Backspace", "Delete", "ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown", "Home", "End", "PageUp", "PageDown", "Space"}

// fillScript is a script that fills in an element. It returns "type" if the text must be typed,
// an empty text if it is done, or else what is wrong.
const fillScript = `function(text, append) {
	const told = () => { for (const kind of ['input', 'change']) this.dispatchEvent(new Event(kind, {bubbles: true, composed: true})) };
	const tag = this.tagName, type = (this.type || '').toLowerCase();
	if (this.disabled) return 'it is disabled';
	if (tag === 'SELECT') {
		const all = [...this.options], clean = s => s.trim().replace(/\s+/g, ' ');
		const option = all.find(o => o.value === text) || all.find(o => clean(o.label) === clean(text)) || all.find(o => clean(o.label).toLowerCase() === clean(text).toLowerCase());
		if (!option) return 'it has no such option; it has: ' + all.slice(0, 40).map(o => clean(o.label)).join(', ');
		if (option.disabled) return 'this option is disabled';
		if (this.multiple && append) option.selected = true; else this.value = option.value;
		told();
		return '';
	}
	if (tag === 'INPUT' && ['checkbox', 'radio', 'button', 'submit', 'reset', 'image'].includes(type)) return 'it is a ' + type + ': use browser:click';
	if (tag === 'INPUT' && type === 'file') return 'files cannot be uploaded';
	if (this.readOnly) return 'it is read-only';
	if (tag === 'INPUT' && ['date', 'time', 'month', 'week', 'datetime-local', 'color', 'range'].includes(type)) {
		const before = this.value;
		this.value = text;
		if (this.value !== text && !(type === 'range' && Number(this.value) === Number(text)) && !(type === 'color' && this.value === text.toLowerCase())) {
			this.value = before;
			return 'this is no value of a field of type ' + type + ' (dates are written 2026-01-31, times 13:45, colours #ff0000)';
		}
		told();
		return '';
	}
	this.focus();
	if (tag === 'INPUT' || tag === 'TEXTAREA') {
		if (append) try { this.setSelectionRange(this.value.length, this.value.length) } catch { }
		else this.select();
		return 'type';
	}
	if (this.isContentEditable) {
		const range = document.createRange(), selection = this.ownerDocument.defaultView.getSelection();
		range.selectNodeContents(this);
		if (append) range.collapse(false);
		selection.removeAllRanges();
		selection.addRange(range);
		return 'type';
	}
	return 'it is no field';
}`

func (b *browsers) typeTool() builtin.Tool {
	t := tool("type", "Type in the browser",
		"Type, enter or fill in text in a field of a form on the page in the browser, replacing what it holds; choose an option of a select box (dropdown); set a date; press a key such as Enter or Escape. Returns what is new on the page."+caution,
		actingHints(), example(map[string]any{"ref": "e7", "text": "cheese", "submit": true}))
	t.Sensitive = []string{"/text"} // it may be a password
	return builtin.MustTool(builtin.Spec[TypeArgs, Outcome]{
		Tool:      t,
		Arguments: withDialog(map[string]builtin.Property{"key": {"enum": keyNames}}),
		Predict:   func(req *source.Request, _ TypeArgs) []toolroom.Effect { return b.pageEffects(req) },
		Run: func(ctx context.Context, req *source.Request, in TypeArgs) (Outcome, []toolroom.Content, error) {
			return b.runAction(ctx, req, in.Answer, false, func(w *browser, t *tab) error { return w.typeInto(ctx, t, in) })
		},
	})
}

func (w *browser) typeInto(ctx context.Context, t *tab, in TypeArgs) error {
	if in.Ref != "" || in.Selector != "" {
		e, err := w.locate(ctx, t, in.Ref, in.Selector)
		if err != nil {
			return err
		}
		if err := w.fillElement(ctx, t, e, in); err != nil {
			return err
		}
	} else if in.Key == "" || in.Text != "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "no element is named").WithHint("give ref or selector; only key needs none")
	}
	pressed := []string{in.Key}
	if in.Submit {
		pressed = []string{"Enter", in.Key}
	}
	for _, k := range pressed {
		if k == "" {
			continue
		}
		if err := w.pressKey(ctx, t, k); err != nil {
			return err
		}
	}
	return nil
}

func (w *browser) fillElement(ctx context.Context, t *tab, e *element, in TypeArgs) error {
	problem := ""
	if err := e.do(ctx, &problem, fillScript, in.Text, in.Append); err != nil {
		return w.lostElementError(ctx, e.name, err)
	}
	switch {
	case problem == "":
		return nil
	case problem != "type":
		return toolroom.Errorf(toolroom.CodeConflict, "nothing can be typed into %s: %s", e.name, problem)
	case in.Text != "":
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: in.Text})
		return w.commandError(ctx, err)
	case !in.Append:
		return w.pressKey(ctx, t, "Backspace")
	}
	return nil
}

// pressKey presses a key.
func (w *browser) pressKey(ctx context.Context, t *tab, name string) error {
	k := keys[name]
	event := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: name, Code: name, WindowsVirtualKeyCode: k.code, NativeVirtualKeyCode: k.code}
	if k.text != "" {
		event.Type, event.Text, event.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, k.text, k.text
	}
	if name == "Space" {
		event.Key = " "
	}
	if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, event); err != nil {
		return w.commandError(ctx, err)
	}
	event.Type, event.Text, event.UnmodifiedText = input.DispatchKeyEventTypeKeyUp, "", ""
	_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, event)
	return w.commandError(ctx, err)
}

// stopPage stops the scripts and the loading of a page whose call was cancelled. It closes a
// tab that does not answer.
func (w *browser) stopPage(t *tab) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err := cdp.Call(ctx, t, runtime.TerminateExecution, cdp.Empty{})
	if err == nil {
		_, err = cdp.Call(ctx, t, page.StopLoading, cdp.Empty{})
	}
	if err == nil {
		_, err = cdp.Call(ctx, t, runtime.Evaluate, runtime.EvaluateParams{Expression: "1"})
	}
	if err == nil || w.process.hasEnded() || strings.Contains(err.Error(), "Execution was terminated") {
		return
	}
	closing, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if _, err := cdp.Call(closing, w.root(), target.CloseTarget, target.CloseTargetParams{TargetID: t.id}); err == nil {
		err = w.await(closing, func() bool { return t.gone })
		if err == nil {
			return
		}
	}
	w.process.close() // the next call starts another
}

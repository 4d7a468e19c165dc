package browser

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/document"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// maxHTML bounds the source of a page that browser:content reads.
const maxHTML = 8 << 20

// ScreenshotArgs are the arguments of browser:screenshot.
type ScreenshotArgs struct {
	Target
	FullPage bool `json:"full_page,omitempty" jsonschema:"the whole page, not only the part that is visible"`
	JPEG     bool `json:"jpeg,omitempty" jsonschema:"return a JPEG: a smaller file with less detail"`
}

// ScreenshotResult is the value of browser:screenshot.
type ScreenshotResult struct {
	URL      string `json:"url" jsonschema:"address of the page"`
	MIMEType string `json:"mime_type" jsonschema:"type of the picture"`
	Bytes    int    `json:"bytes" jsonschema:"its size"`
}

// maxPicture is the maximum height and width of a screenshot in pixels.
const maxPicture = 8000

func (b *browsers) screenshot() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ScreenshotArgs, ScreenshotResult]{
		Tool: tool("screenshot", "Take a screenshot in the browser",
			"Take a screenshot of the site in the browser or of one element: how does it look, its layout and colours."+caution,
			readingHints(), example(map[string]any{})),
		Run: func(ctx context.Context, req *source.Request, in ScreenshotArgs) (ScreenshotResult, []toolroom.Content, error) {
			out := ScreenshotResult{MIMEType: "image/png"}
			p := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
			if in.JPEG {
				out.MIMEType, p.Format = "image/jpeg", page.CaptureScreenshotFormatJpeg
			}
			var data []byte
			err := b.withTab(ctx, req, false, func(w *browser, t *tab) error {
				if err := w.waitBeforeReading(ctx, t); err != nil {
					return err
				}
				if err := w.setScreenshotArea(ctx, t, in, &p); err != nil {
					return err
				}
				got, err := cdp.Call(ctx, t, page.CaptureScreenshot, p)
				if err != nil {
					return w.commandError(ctx, err)
				}
				out.URL = w.address(t)
				data = got.Data
				return nil
			})
			if err != nil {
				return out, nil, err
			}
			out.Bytes = len(data)
			return out, []toolroom.Content{
				toolroom.TextContent(fmt.Sprintf("%s: %s, %d bytes", out.URL, out.MIMEType, out.Bytes)),
				{Type: toolroom.ContentImage, Data: data, MIMEType: out.MIMEType},
			}, nil
		},
	})
}

// setScreenshotArea sets the part of the page that a screenshot shows.
func (w *browser) setScreenshotArea(ctx context.Context, t *tab, in ScreenshotArgs, p *page.CaptureScreenshotParams) error {
	if in.FullPage {
		got, err := cdp.Call(ctx, t, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return w.commandError(ctx, err)
		}
		size := got.CSSContentSize
		p.Clip = &page.Viewport{Width: min(size.Width, maxPicture), Height: min(size.Height, maxPicture), Scale: 1}
		p.CaptureBeyondViewport = new(true)
	}
	if in.Ref == "" && in.Selector == "" {
		return nil
	}
	e, err := w.locate(ctx, t, in.Ref, in.Selector)
	if err != nil {
		return err
	}
	x, y, err := w.clickPoint(ctx, t, e)
	if err != nil {
		return err
	}
	box, err := cdp.Call(ctx, e.frames, dom.GetBoxModel, dom.GetBoxModelParams{ObjectID: e.object})
	if err != nil {
		return w.lostElementError(ctx, e.name, err)
	}
	wide, high := min(float64(box.Model.Width), maxPicture), min(float64(box.Model.Height), maxPicture)
	metrics, err := cdp.Call(ctx, t, page.GetLayoutMetrics, cdp.Empty{})
	if err != nil {
		return w.commandError(ctx, err)
	}
	// A clip is in the coordinates of the page, a point in those of what is visible.
	left, top := metrics.CSSVisualViewport.PageX, metrics.CSSVisualViewport.PageY
	p.Clip = &page.Viewport{X: max(left+x-wide/2, 0), Y: max(top+y-high/2, 0), Width: max(wide, 1), Height: max(high, 1), Scale: 1}
	p.CaptureBeyondViewport = new(true)
	return nil
}

func (w *browser) address(t *tab) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.main().url
}

// ContentArgs are the arguments of browser:content.
type ContentArgs struct {
	Target
	Format string `json:"format,omitempty" jsonschema:"markdown: the main content; full: the whole page as Markdown; text: what is visible; html: the source as scripts have made it"`
}

// ContentResult is the value of browser:content.
type ContentResult struct {
	URL       string `json:"url" jsonschema:"address of the page"`
	Title     string `json:"title" jsonschema:"title of the page"`
	Content   string `json:"content" jsonschema:"the content"`
	Truncated bool   `json:"truncated,omitempty" jsonschema:"the page was too large, and its end is missing"`
}

// readPage is a script that returns the source or the text of an element, or of the page.
const readPage = `function(format, limit) {
	const e = this && this.nodeType === 1 ? this : document.documentElement;
	const text = format === 'text' ? (e.innerText || '') : e.outerHTML;
	return {title: document.title, text: text.slice(0, limit), more: text.length > limit};
}`

func (b *browsers) content() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ContentArgs, ContentResult]{
		Tool: tool("content", "Read the page in the browser",
			"Read the text or article of the page that is open in the browser after its scripts have run, as Markdown, plain text or HTML source."+caution,
			readingHints(), example(map[string]any{"format": "markdown"})),
		Arguments: map[string]builtin.Property{"format": {"enum": []string{"markdown", "full", "text", "html"}, "default": "markdown"}},
		Run: func(ctx context.Context, req *source.Request, in ContentArgs) (ContentResult, []toolroom.Content, error) {
			var out ContentResult
			err := b.withTab(ctx, req, false, func(w *browser, t *tab) error {
				if err := w.waitBeforeReading(ctx, t); err != nil {
					return err
				}
				var got struct {
					Title string `json:"title"`
					Text  string `json:"text"`
					More  bool   `json:"more"`
				}
				err := w.evaluateOn(ctx, t, in.Target, &got, readPage, in.Format, maxHTML)
				if err != nil {
					return err
				}
				out = ContentResult{URL: w.address(t), Title: oneLine(got.Title), Content: got.Text, Truncated: got.More}
				return nil
			})
			if err == nil && in.Format != "text" && in.Format != "html" {
				var converted document.Page
				address, _ := url.Parse(out.URL) // nil has no relative links
				if address == nil {
					address = &url.URL{}
				}
				converted, err = document.HTML(ctx, []byte(out.Content), address, in.Format == "full" || in.Ref != "" || in.Selector != "")
				out.Content = converted.Markdown
			}
			if err != nil {
				return out, nil, err
			}
			return out, builtin.Text(out.URL + "\n" + out.Title + "\n\n" + out.Content), nil
		},
	})
}

// evaluateOn calls a function on the element that a target names, or else on the page.
func (w *browser) evaluateOn(ctx context.Context, t *tab, on Target, result any, function string, args ...any) error {
	if on.Ref == "" && on.Selector == "" {
		return w.commandError(ctx, w.evaluate(ctx, t.frames, cdp.FrameID(t.id), result, function, args...))
	}
	e, err := w.locate(ctx, t, on.Ref, on.Selector)
	if err != nil {
		return err
	}
	return w.commandError(ctx, e.do(ctx, result, function, args...))
}

// Condition is what browser:wait_for and browser:assert check. All of it must hold.
type Condition struct {
	Text     string `json:"text,omitempty" jsonschema:"this text is on the page"`
	NoText   string `json:"no_text,omitempty" jsonschema:"this text is not on the page"`
	Selector string `json:"selector,omitempty" jsonschema:"an element that matches this CSS selector is visible"`
	Gone     string `json:"gone,omitempty" jsonschema:"no element that matches this CSS selector is visible"`
	Count    *int   `json:"count,omitempty" jsonschema:"exactly this many elements match selector"`
	Ref      string `json:"ref,omitempty" jsonschema:"the element whose value is checked"`
	Value    string `json:"value,omitempty" jsonschema:"the value, text or checked state (true, false) of the element at ref"`
	URL      string `json:"url,omitempty" jsonschema:"the address of the page: a part of it, or a pattern with *"`
	Title    string `json:"title,omitempty" jsonschema:"a part of the title"`
}

// checkPage is a script that returns which parts of a condition hold in one frame.
const checkPage = `function(selectors) {
	const seen = e => { const r = e.getBoundingClientRect(), s = getComputedStyle(e); return r.width > 0 && r.height > 0 && s.visibility !== 'hidden' };
	const count = selector => {
		let n = 0;
		const visit = root => {
			for (const e of root.querySelectorAll(selector)) if (seen(e)) n++;
			for (const e of root.querySelectorAll('*')) if (e.shadowRoot) visit(e.shadowRoot);
		};
		visit(document);
		return n;
	};
	return {title: document.title, text: (document.body && document.body.innerText || '').replace(/\s+/g, ' '), counts: selectors.map(s => s ? count(s) : 0)};
}`

const valueOf = `function() {
	if (this.type === 'checkbox' || this.type === 'radio') return String(this.checked);
	if (this.tagName === 'SELECT') return this.selectedOptions.length ? this.selectedOptions[0].label : '';
	return 'value' in this && typeof this.value === 'string' ? this.value : (this.innerText || '').trim();
}`

// unmetConditions describes the parts of a condition that do not hold.
func (w *browser) unmetConditions(ctx context.Context, t *tab, c Condition) ([]string, error) {
	var text, title string
	counts := [2]int{}
	for i, f := range w.framesOf(t) {
		var got struct {
			Title  string `json:"title"`
			Text   string `json:"text"`
			Counts [2]int `json:"counts"`
		}
		if err := w.evaluate(ctx, f.frames, f.id, &got, checkPage, []string{c.Selector, c.Gone}); err != nil {
			if toolroom.CodeOf(err) == toolroom.CodeExecutionFailed && strings.Contains(err.Error(), "JavaScript") {
				return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "selector or gone is not a CSS selector").WithHint("write it like #id, .class or button[type=submit]")
			}
			if ctx.Err() != nil {
				return nil, w.commandError(ctx, err)
			}
			continue // the frame has gone
		}
		if i == 0 {
			title = got.Title
		}
		text += got.Text + "\n"
		counts[0], counts[1] = counts[0]+got.Counts[0], counts[1]+got.Counts[1]
	}
	var wrong []string
	fail := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	if c.Text != "" || c.NoText != "" {
		now, err := w.readTree(ctx, t) // has the text of shadow roots
		if err != nil {
			return nil, w.commandError(ctx, err)
		}
		text += now.String()
		fail(c.Text == "" || strings.Contains(text, oneLine(c.Text)), "the page does not show %q", truncate(c.Text, 100))
		fail(c.NoText == "" || !strings.Contains(text, oneLine(c.NoText)), "the page shows %q", truncate(c.NoText, 100))
	}
	if c.Count != nil {
		fail(counts[0] == *c.Count, "%d visible elements match %q, not %d", counts[0], truncate(c.Selector, 100), *c.Count)
	} else if c.Selector != "" {
		fail(counts[0] > 0, "no visible element matches %q", truncate(c.Selector, 100))
	}
	fail(c.Gone == "" || counts[1] == 0, "%d visible elements match %q", counts[1], truncate(c.Gone, 100))
	address := w.address(t)
	fail(c.URL == "" || matches(c.URL, address), "the address is %s", truncate(address, 200))
	fail(c.Title == "" || strings.Contains(title, c.Title), "the title is %q", truncate(title, 100))
	if c.Ref != "" {
		e, err := w.locate(ctx, t, c.Ref, "")
		if err != nil {
			return nil, err
		}
		value := ""
		if err := e.do(ctx, &value, valueOf); err != nil {
			return nil, w.lostElementError(ctx, c.Ref, err)
		}
		fail(value == c.Value, "the value of %s is %q", c.Ref, truncate(value, 100))
	}
	return wrong, nil
}

func matches(pattern, address string) bool {
	if !strings.Contains(pattern, "*") {
		return strings.Contains(address, pattern)
	}
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(address, parts[0])
	for _, part := range parts[1:] {
		if !ok {
			return false
		}
		_, rest, ok = strings.Cut(rest, part)
	}
	return ok && (rest == "" || strings.HasSuffix(pattern, "*"))
}

func (c Condition) validate() *toolroom.Error {
	switch {
	case c == Condition{}:
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "there is nothing to check").WithHint("give text, no_text, selector, gone, url, title, or ref with value")
	case c.Count != nil && c.Selector == "":
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "count needs selector")
	}
	return nil
}

// WaitArgs are the arguments of browser:wait_for.
type WaitArgs struct {
	Condition
	Timeout int `json:"timeout,omitempty" jsonschema:"time limit in milliseconds"`
}

const defaultWait = 30_000

func (b *browsers) waitFor() builtin.Tool {
	return builtin.MustTool(builtin.Spec[WaitArgs, Outcome]{
		Tool: tool("wait_for", "Wait for the page in the browser",
			"Wait until a text or an element appears on the page in the browser or has gone: until it has finished loading, or a spinner is over."+caution,
			readingHints(), example(map[string]any{"text": "Order placed"})),
		Arguments: map[string]builtin.Property{"timeout": {"minimum": 1, "maximum": 240_000, "default": defaultWait}, "count": {"minimum": 0}},
		Run: func(ctx context.Context, req *source.Request, in WaitArgs) (Outcome, []toolroom.Content, error) {
			if err := in.validate(); err != nil {
				return Outcome{}, nil, err
			}
			limit := cmp.Or(time.Duration(in.Timeout)*time.Millisecond, defaultWait*time.Millisecond)
			return b.runAction(ctx, req, Answer{}, false, func(w *browser, t *tab) error {
				for end := time.Now().Add(limit); ; {
					wrong, err := w.unmetConditions(ctx, t, in.Condition)
					if err != nil && toolroom.CodeOf(err) != toolroom.CodeExecutionFailed { // that means that it navigates
						return err
					}
					if err == nil && len(wrong) == 0 {
						return nil
					}
					if time.Now().After(end) {
						return toolroom.Errorf(toolroom.CodeTimeout, "after %d ms still: %s", limit.Milliseconds(), strings.Join(wrong, "; ")).
							WithHint("look at the page with browser:snapshot, or set a larger timeout")
					}
					select {
					case <-time.After(150 * time.Millisecond):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
				}
			})
		},
	})
}

// AssertResult is the value of browser:assert.
type AssertResult struct {
	OK    bool     `json:"ok" jsonschema:"all of it holds"`
	Wrong []string `json:"wrong,omitempty" jsonschema:"what does not hold"`
}

// Finish implements [builtin.Finisher].
func (r AssertResult) Finish(out *source.Output) { out.Failed = !r.OK }

func (b *browsers) assert() builtin.Tool {
	return builtin.MustTool(builtin.Spec[Condition, AssertResult]{
		Tool: tool("assert", "Check the page in the browser",
			"Assert, check, test or verify that a text, element, value, title or address is on the page in the browser. Fails if it is not."+caution,
			readingHints(), example(map[string]any{"text": "Welcome", "url": "*/home"})),
		Arguments: map[string]builtin.Property{"count": {"minimum": 0}},
		Run: func(ctx context.Context, req *source.Request, in Condition) (AssertResult, []toolroom.Content, error) {
			if err := in.validate(); err != nil {
				return AssertResult{}, nil, err
			}
			var out AssertResult
			err := b.withTab(ctx, req, false, func(w *browser, t *tab) error {
				err := w.waitBeforeReading(ctx, t)
				if err == nil {
					out.Wrong, err = w.unmetConditions(ctx, t, in)
				}
				return err
			})
			if err != nil {
				return out, nil, err
			}
			if out.OK = len(out.Wrong) == 0; out.OK {
				return out, builtin.Text("it holds"), nil
			}
			return out, builtin.Text("it does not hold: " + strings.Join(out.Wrong, "; ")), nil
		},
	})
}

// ExtractArgs are the arguments of browser:extract.
type ExtractArgs struct {
	Selector string            `json:"selector" jsonschema:"CSS selector of the rows, or of a table, whose rows are taken"`
	Fields   map[string]string `json:"fields,omitempty" jsonschema:"a CSS selector inside the row per field; @NAME at its end takes an attribute, such as a@href"`
	Limit    int               `json:"limit,omitempty" jsonschema:"maximum number of rows"`
}

// ExtractResult is the value of browser:extract.
type ExtractResult struct {
	Rows  []map[string]string `json:"rows" jsonschema:"the rows"`
	Total int                 `json:"total" jsonschema:"number of rows on the page"`
}

const extractRows = `function(selector, fields, limit) {
	const found = [], clean = s => (s || '').trim().replace(/\s+/g, ' ').slice(0, 5000);
	const visit = root => {
		found.push(...root.querySelectorAll(selector));
		for (const e of root.querySelectorAll('*')) if (e.shadowRoot) visit(e.shadowRoot);
	};
	visit(document);
	const names = Object.keys(fields);
	if (!names.length && found.length === 1 && found[0].tagName === 'TABLE') {
		const all = [...found[0].rows].map(r => [...r.cells].map(c => clean(c.innerText)));
		const head = all.length && found[0].querySelector('th') ? all.shift() : null;
		return {total: all.length, rows: all.slice(0, limit).map(r => Object.fromEntries(r.map((c, i) => [head && head[i] || 'column ' + (i + 1), c])))};
	}
	const one = (row, path) => {
		const at = path.lastIndexOf('@'), css = at < 0 ? path : path.slice(0, at), name = at < 0 ? '' : path.slice(at + 1);
		const e = css.trim() ? row.querySelector(css) : row;
		if (!e) return '';
		if (!name) return clean(e.innerText ?? e.textContent);
		return clean((name === 'href' || name === 'src') && typeof e[name] === 'string' ? e[name] : e.getAttribute(name));
	};
	return {total: found.length, rows: found.slice(0, limit).map(row => names.length ? Object.fromEntries(names.map(n => [n, one(row, fields[n])])) : {text: one(row, ''), ...(row.href ? {href: one(row, '@href')} : {})})};
}`

func (b *browsers) extract() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ExtractArgs, ExtractResult]{
		Tool: tool("extract", "Extract data from the page in the browser",
			"Extract or scrape data as rows from the page in the browser: the cells of a table, the items of a list, names, prices and links, by CSS selectors."+caution,
			readingHints(), example(map[string]any{"selector": ".product", "fields": map[string]any{"name": "h3", "price": ".price", "link": "a@href"}})),
		Arguments: map[string]builtin.Property{"selector": {"minLength": 1}, "limit": {"minimum": 1, "maximum": 10_000, "default": 200}},
		Run: func(ctx context.Context, req *source.Request, in ExtractArgs) (ExtractResult, []toolroom.Content, error) {
			if in.Fields == nil {
				in.Fields = map[string]string{}
			}
			in.Limit = cmp.Or(in.Limit, 200)
			var out ExtractResult
			err := b.withTab(ctx, req, false, func(w *browser, t *tab) error {
				if err := w.waitBeforeReading(ctx, t); err != nil {
					return err
				}
				for _, f := range w.framesOf(t) { // the first frame that has any
					err := w.evaluate(ctx, f.frames, f.id, &out, extractRows, in.Selector, in.Fields, in.Limit)
					if err != nil {
						return w.commandError(ctx, err)
					}
					if out.Total > 0 {
						return nil
					}
				}
				return nil
			})
			if out.Rows == nil {
				out.Rows = []map[string]string{}
			}
			return out, nil, err
		},
	})
}

// EvalArgs are the arguments of browser:eval.
type EvalArgs struct {
	Expression string `json:"expression" jsonschema:"JavaScript: an expression, whose promise is awaited, or a function of the element"`
	Target
	Answer
}

// EvalResult is the value of browser:eval.
type EvalResult struct {
	Outcome
	Value any `json:"value,omitempty" jsonschema:"the value as JSON"`
}

func (b *browsers) eval() builtin.Tool {
	t := tool("eval", "Run JavaScript in the browser",
		"Run, eval or evaluate JavaScript code in the page in the browser and get its value, such as document.title: for what no other tool reaches."+caution,
		actingHints(), example(map[string]any{"expression": "document.querySelectorAll('a').length"}))
	t.Aliases = []string{"browser:evaluate"}
	return builtin.MustTool(builtin.Spec[EvalArgs, EvalResult]{
		Tool:      t,
		Arguments: withDialog(map[string]builtin.Property{"expression": {"minLength": 1}}),
		Predict:   func(req *source.Request, _ EvalArgs) []toolroom.Effect { return b.pageEffects(req) },
		Run: func(ctx context.Context, req *source.Request, in EvalArgs) (EvalResult, []toolroom.Content, error) {
			var value []byte
			out, content, err := b.runAction(ctx, req, in.Answer, false, func(w *browser, t *tab) (err error) {
				value, err = w.evaluateInPage(ctx, t, in)
				return err
			})
			r := EvalResult{Outcome: out}
			if err != nil {
				return r, nil, err
			}
			if len(value) > 0 {
				if err := jsonx.Unmarshal(value, &r.Value, jsonx.Limits{Bytes: len(value)}); err != nil {
					return r, nil, toolroom.Errorf(toolroom.CodeInvalidOutput, "the value cannot be read: %w", err)
				}
			}
			text := "undefined"
			if len(value) > 0 {
				text = string(value)
			}
			return r, append(builtin.Text(text), content...), nil
		},
	})
}

// evaluateInPage evaluates the caller's JavaScript in the JavaScript world of the page.
func (w *browser) evaluateInPage(ctx context.Context, t *tab, in EvalArgs) ([]byte, error) {
	if in.Ref == "" && in.Selector == "" {
		got, err := cdp.Call(ctx, t, runtime.Evaluate, runtime.EvaluateParams{Expression: in.Expression, ReturnByValue: new(true), AwaitPromise: new(true), UserGesture: new(true)})
		if err != nil {
			return nil, w.commandError(ctx, err)
		}
		if got.ExceptionDetails != nil {
			return nil, exceptionError(got.ExceptionDetails)
		}
		return got.Result.Value, nil
	}
	e, err := w.locate(ctx, t, in.Ref, in.Selector)
	if err != nil {
		return nil, err
	}
	got, err := cdp.Call(ctx, e.frames, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: e.node})
	if err != nil {
		return nil, w.lostElementError(ctx, e.name, err)
	}
	called, err := cdp.Call(ctx, e.frames, runtime.CallFunctionOn, runtime.CallFunctionOnParams{
		FunctionDeclaration: "function() { return (" + in.Expression + ").call(this, this) }", ObjectID: got.Object.ObjectID,
		ReturnByValue: new(true), AwaitPromise: new(true), UserGesture: new(true),
	})
	if err != nil {
		return nil, w.commandError(ctx, err)
	}
	if called.ExceptionDetails != nil {
		return nil, exceptionError(called.ExceptionDetails)
	}
	return called.Result.Value, nil
}

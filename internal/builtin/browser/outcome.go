package browser

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

// maxChanges bounds, in bytes, the changes of the tree in the result of an action.
const maxChanges = 6 << 10

// Outcome is the value of a tool that acts on a page.
type Outcome struct {
	URL       string     `json:"url" jsonschema:"address of the page"`
	Title     string     `json:"title" jsonschema:"title of the page"`
	Status    int        `json:"status,omitempty" jsonschema:"HTTP status of the page"`
	NewPage   bool       `json:"new_page,omitempty" jsonschema:"the tab shows another document than before"`
	Changes   string     `json:"changes" jsonschema:"the tree of a new page, or else what changed in the tree: lines that begin with + are new, lines with - are gone"`
	Hidden    int        `json:"hidden_lines,omitempty" jsonschema:"lines that changes does not show"`
	Tree      string     `json:"tree,omitempty" jsonschema:"the artifact that holds the whole tree, if lines are hidden"`
	Dialogs   []Dialog   `json:"dialogs,omitempty" jsonschema:"dialogs that the page opened, and how they were answered"`
	Downloads []Download `json:"downloads,omitempty" jsonschema:"files that the page sent"`
	Tabs      []Tab      `json:"tabs,omitempty" jsonschema:"the open tabs, if there are several"`
	Refused   []string   `json:"refused,omitempty" jsonschema:"connections that the egress rules refused"`
	Notes     []string   `json:"notes,omitempty" jsonschema:"what else happened"`
}

// Tab describes an open tab.
type Tab struct {
	Number   int    `json:"tab" jsonschema:"its number"`
	URL      string `json:"url" jsonschema:"address of its page"`
	Selected bool   `json:"selected,omitempty" jsonschema:"tools act on this tab"`
	Opened   bool   `json:"opened,omitempty" jsonschema:"it was opened by this call"`
}

// info is the title and status of a page.
type info struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
}

const describePage = `function() {
	const e = performance.getEntriesByType('navigation')[0];
	return {title: document.title, status: (e && e.responseStatus) || 0};
}`

// finish waits for the page and describes what an action did.
func (w *browser) finish(ctx context.Context, req *source.Request, t *tab) (Outcome, []toolroom.Content, error) {
	if err := w.waitAfterAction(ctx, t); err != nil {
		return Outcome{}, nil, err
	}
	out := Outcome{Downloads: w.keepDownloads(ctx, req)}
	if t.isClosed(w) {
		out.Notes = append(out.Notes, t.String()+" has been closed")
		var err error
		if t, err = w.tab(); err != nil {
			w.addNews(&out, nil)
			return out, builtin.Text(out.text()), nil
		}
	}
	now, err := w.describe(ctx, t, &out)
	if err != nil {
		return Outcome{}, nil, err
	}
	old, known := w.shownTrees[t.id]
	w.shownTrees[t.id] = now
	if out.NewPage = !known || old.loader != now.loader; out.NewPage {
		out.Changes = now.String()
	} else {
		out.Changes = changedLines(old, now)
	}
	var cut bool
	if out.Changes, out.Hidden, cut = firstLines(out.Changes, maxChanges); cut && w.owner.o.Artifacts != nil {
		// Without a handle, browser:snapshot shows the tree.
		if a, err := w.owner.o.Artifacts.PutResult(ctx, identity.Owner(req.Identity), "tree", "text/plain", w.owner.o.Secrets.Redact([]byte(now.String())), false); err == nil {
			out.Tree = a.Handle
		}
	}
	w.addNews(&out, t)
	return out, builtin.Text(out.text()), nil
}

func (t *tab) isClosed(w *browser) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return t.gone
}

// describe reads a tab's tree, and fills in the address and title.
func (w *browser) describe(ctx context.Context, t *tab, out *Outcome) (tree, error) {
	for try := 0; ; try++ {
		now, err := w.readTree(ctx, t)
		var i info
		if err == nil {
			err = w.evaluate(ctx, t.frames, cdp.FrameID(t.id), &i, describePage)
		}
		if err != nil {
			if err = w.commandError(ctx, err); try < 5 && toolroom.CodeOf(err) == toolroom.CodeExecutionFailed && !t.isClosed(w) {
				// The page navigated meanwhile.
				if err := w.waitAfterAction(ctx, t); err != nil {
					return tree{}, err
				}
				continue
			}
			return tree{}, err
		}
		w.mu.Lock()
		out.URL = t.main().url
		w.refs.forget(func(p place) bool { return !w.isCurrent(p) })
		w.mu.Unlock()
		out.Title, out.Status = oneLine(i.Title), i.Status
		return now, nil
	}
}

// addNews adds to a result what happened since the call began.
func (w *browser) addNews(out *Outcome, t *tab) {
	n := w.takeNews()
	out.Dialogs, out.Refused = n.dialogs, n.refused
	if n.closed > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d more tabs were closed: a browser has at most %d", n.closed, maxWindows))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.tabs) < 2 {
		return
	}
	for _, other := range w.tabs {
		opened := false
		for _, o := range n.opened {
			opened = opened || o == other
		}
		out.Tabs = append(out.Tabs, Tab{Number: other.number, URL: truncate(other.main().url, 300), Selected: other == t, Opened: opened})
	}
}

// changedLines returns the lines that differ, as a diff without context.
func changedLines(old, now tree) string {
	if old.String() == now.String() {
		return ""
	}
	text := diff.Diff("before", []byte(old.String()), "after", []byte(now.String()))
	var out strings.Builder
	gap := false
	for line := range bytes.Lines(text) {
		switch {
		case bytes.HasPrefix(line, []byte("---")), bytes.HasPrefix(line, []byte("+++")), bytes.HasPrefix(line, []byte("diff ")):
		case line[0] == '+', line[0] == '-':
			if gap && out.Len() > 0 {
				out.WriteString("…\n")
			}
			out.Write(line[:1])
			out.WriteByte(' ')
			out.Write(line[1:])
			gap = false
		default:
			gap = true
		}
	}
	return out.String()
}

// firstLines returns the first lines of a text that have at most limit bytes, and how many
// lines follow.
func firstLines(text string, limit int) (head string, hidden int, cut bool) {
	if len(text) <= limit {
		return text, 0, false
	}
	end := strings.LastIndexByte(text[:limit], '\n') + 1
	if end == 0 {
		return truncate(text, limit), 0, true
	}
	return text[:end], strings.Count(text[end:], "\n"), true
}

func (o Outcome) text() string {
	var s strings.Builder
	if o.URL != "" {
		fmt.Fprintf(&s, "%s\n%s\n", o.URL, o.Title)
	}
	if o.Status >= 400 {
		fmt.Fprintf(&s, "[status %d]\n", o.Status)
	}
	for _, d := range o.Dialogs {
		what := "dismissed"
		if d.Accepted {
			what = "accepted"
		}
		fmt.Fprintf(&s, "[the page opened a dialog (%s), which was %s: %s]\n", d.Kind, what, d.Message)
	}
	for _, d := range o.Downloads {
		fmt.Fprintf(&s, "[download %s: %s, %d bytes", d.State, d.Name, d.Bytes)
		if d.Handle != "" {
			s.WriteString(", artifact " + d.Handle)
		}
		if d.Error != "" {
			s.WriteString(", not kept: " + d.Error)
		}
		s.WriteString("]\n")
	}
	for _, text := range o.Refused {
		s.WriteString("[refused: " + text + "]\n")
	}
	for _, text := range o.Notes {
		s.WriteString("[" + text + "]\n")
	}
	for _, t := range o.Tabs {
		fmt.Fprintf(&s, "[tab %d", t.Number)
		if t.Opened {
			s.WriteString(", opened now")
		}
		if t.Selected {
			s.WriteString(", selected")
		}
		fmt.Fprintf(&s, ": %s]\n", t.URL)
	}
	switch {
	case o.URL == "":
	case o.Changes == "":
		s.WriteString("\nnothing changed in the tree\n")
	default:
		s.WriteString("\n" + o.Changes)
	}
	if o.Hidden > 0 {
		fmt.Fprintf(&s, "[%d more lines; the whole tree: ", o.Hidden)
		if o.Tree != "" {
			s.WriteString("artifact " + o.Tree + " or ")
		}
		s.WriteString("browser:snapshot; browser:find searches it]\n")
	}
	return s.String()
}

// guard returns the egress guard of a caller's browser, which permits the caller's own servers.
func (b *browsers) guard(caller toolroom.Identity) *egress.Guard {
	if b.o.Servers == nil {
		return b.o.Guard
	}
	return b.o.Guard.WithLocal(b.o.Servers(caller))
}

// checkAddress returns an error if the browser may not open an address.
func (b *browsers) checkAddress(ctx context.Context, caller toolroom.Identity, address string) error {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme == "" {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "url is not an address of the web").WithHint("write it like https://example.com/page")
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return toolroom.Errorf(toolroom.CodeDenied, "the browser does not open %s: addresses", u.Scheme).WithHint("only http and https are allowed; read files with file:read")
	}
	return b.guard(caller).CheckURL(ctx, u.String())
}

// refusedPageError returns the guard's error if the guard refused the page at address, else
// nil.
func (w *browser) refusedPageError(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, host := range []string{u.Host, u.Host + ":443"} {
		if err := w.news.hosts[host]; err != nil {
			return err
		}
	}
	return nil
}

package browser

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/dom"

	"github.com/toolroom/toolroom"
)

// Limits of a tree.
const (
	maxLines  = 20_000
	maxFrames = 100
	maxName   = 800 // bytes of the text of one line
	maxDepth  = 60  // deeper lines are not indented further
)

// tree is the accessibility tree of a tab as lines of text.
type tree struct {
	loader cdp.LoaderID // of the document
	lines  []string
	more   bool // it has more lines than maxLines
}

func (t tree) String() string {
	text := strings.Join(t.lines, "\n")
	if t.more {
		text += fmt.Sprintf("\n[the page has more than %d lines, and the rest is not shown]", maxLines)
	}
	return text + "\n"
}

// interactiveRoles are the roles whose elements always have references.
var interactiveRoles = map[string]bool{
	"button": true, "link": true, "textbox": true, "searchbox": true, "checkbox": true, "radio": true, "combobox": true, "listbox": true,
	"option": true, "menuitem": true, "menuitemcheckbox": true, "menuitemradio": true, "tab": true, "switch": true, "slider": true,
	"spinbutton": true, "treeitem": true, "gridcell": true, "Iframe": true, "image": true, "img": true, "table": true, "dialog": true,
	"DisclosureTriangle": true, "ColorWell": true, "Date": true, "DateTime": true, "InputTime": true, "Video": true, "Audio": true,
	"PopUpButton": true, "MenuListPopup": true, "canvas": true, "Canvas": true, "form": true,
}

// skippedRoles are roles without meaning for a reader. Their children are shown in their place.
var skippedRoles = map[string]bool{"": true, "none": true, "generic": true, "RootWebArea": true, "GenericContainer": true, "MenuListPopup": true, "LayoutTable": true, "LayoutTableRow": true, "LayoutTableCell": true}

// shownProperties are the properties that a line shows, in this order.
var shownProperties = []string{"level", "checked", "pressed", "selected", "expanded", "disabled", "required", "readonly", "invalid", "modal", "focused"}

// treeWriter writes the tree of a tab.
type treeWriter struct {
	w      *browser
	ctx    context.Context
	out    tree
	frames int
}

// readTree returns the accessibility tree of a tab.
func (w *browser) readTree(ctx context.Context, t *tab) (tree, error) {
	p := &treeWriter{w: w, ctx: ctx}
	w.mu.Lock()
	main := *t.main()
	w.mu.Unlock()
	p.out.loader = main.loader
	err := p.frame(t.frames, main.id, 0)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p.out, err
}

// frame writes the tree of one frame.
func (p *treeWriter) frame(f *frames, id cdp.FrameID, depth int) error {
	if p.frames++; p.frames > maxFrames {
		p.line(depth, fmt.Sprintf("- text: [the page has more than %d frames]", maxFrames))
		return nil
	}
	p.w.mu.Lock()
	found := f.byID[id]
	var loader cdp.LoaderID
	if found != nil {
		loader = found.loader
	}
	p.w.mu.Unlock()
	got, err := cdp.Call(p.ctx, f, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{FrameID: id})
	if err != nil {
		return err
	}
	inside, err := p.childFrames(f, id)
	if err != nil {
		return err
	}
	b := frameWriter{treeWriter: p, frames: f, frame: id, loader: loader, nodes: make(map[accessibility.NodeID]*accessibility.Node, len(got.Nodes)), childFrames: inside}
	for _, n := range got.Nodes {
		b.nodes[n.NodeID] = n
	}
	if len(got.Nodes) > 0 {
		b.node(got.Nodes[0], depth, "", 0)
	}
	return p.ctx.Err()
}

// child is a frame in a frame.
type child struct {
	frames *frames
	id     cdp.FrameID
}

// childFrames returns the frames inside a frame, by the nodes that contain them.
func (p *treeWriter) childFrames(f *frames, id cdp.FrameID) (map[cdp.BackendNodeID]child, error) {
	var children []child
	p.w.mu.Lock()
	for _, other := range f.order {
		if f.byID[other].parent == id {
			children = append(children, child{f, other})
		}
	}
	for _, other := range p.w.targets { // frames in other processes
		if !other.isTab && other.parent == f.session.id && (other.within == id || other.within == "") {
			i := slices.IndexFunc(children, func(c child) bool { return c.id == cdp.FrameID(other.id) })
			if i < 0 {
				children = append(children, child{})
				i = len(children) - 1
			}
			children[i] = child{other, cdp.FrameID(other.id)}
		}
	}
	p.w.mu.Unlock()
	if len(children) == 0 {
		return nil, nil
	}
	out := map[cdp.BackendNodeID]child{}
	for _, c := range children {
		owner, err := cdp.Call(p.ctx, f, dom.GetFrameOwner, dom.GetFrameOwnerParams{FrameID: c.id})
		if err == nil {
			out[owner.BackendNodeID] = c
		} else if p.ctx.Err() != nil {
			return nil, err
		}
	}
	return out, nil
}

// frameWriter writes the nodes of one frame.
type frameWriter struct {
	*treeWriter
	frames      *frames
	frame       cdp.FrameID
	loader      cdp.LoaderID
	nodes       map[accessibility.NodeID]*accessibility.Node
	childFrames map[cdp.BackendNodeID]child
}

func (p *treeWriter) line(depth int, text string) {
	if len(p.out.lines) >= maxLines {
		p.out.more = true
		return
	}
	p.out.lines = append(p.out.lines, strings.Repeat("  ", min(depth, maxDepth))+text)
}

// node writes a node and its descendants. around is the name of the enclosing element, which a
// text inside need not repeat.
func (b *frameWriter) node(n *accessibility.Node, depth int, around string, level int) {
	if b.out.more || level > 2000 { // a tree that deep is an attack
		return
	}
	role, name := valueText(n.Role), oneLine(valueText(n.Name))
	switch {
	case role == "StaticText":
		if name != "" && !strings.Contains(around, name) {
			b.line(depth, "- text: "+name)
		}
		return
	case role == "InlineTextBox", role == "LineBreak", role == "ListMarker":
		return
	}
	c, isFrame := b.childFrames[n.BackendDOMNodeID]
	isFrame = isFrame && n.BackendDOMNodeID != 0
	focusable := property(n, "focusable") == "true" && role != "RootWebArea"
	below := depth
	if !n.Ignored && (!skippedRoles[role] || isFrame || focusable && name != "") {
		if skippedRoles[role] {
			role = "generic"
		}
		if isFrame {
			role = "iframe"
		}
		text, only := b.describe(n, role, name, focusable || isFrame || interactiveRoles[role])
		b.line(depth, text)
		if only || role == "combobox" && b.hidesOptions(n) {
			return
		}
		below, around = depth+1, name
	}
	for _, id := range n.ChildIDs {
		if child := b.nodes[id]; child != nil {
			b.node(child, below, around, level+1)
		}
	}
	if isFrame {
		if err := b.treeWriter.frame(c.frames, c.id, below); err != nil && b.ctx.Err() == nil {
			b.line(below, "- text: [this frame cannot be read]")
		}
	}
}

// hidesOptions reports whether a select box has too many options to show them.
func (b *frameWriter) hidesOptions(n *accessibility.Node) bool {
	count := 0
	for _, id := range n.ChildIDs {
		if child := b.nodes[id]; child != nil {
			count += 1 + len(child.ChildIDs)
		}
	}
	return count > 60
}

// describe returns the line of an element. only is true if the line has all text of the
// element, so that its children need not be written.
func (b *frameWriter) describe(n *accessibility.Node, role, name string, hasRef bool) (line string, only bool) {
	var s strings.Builder
	s.WriteString("- " + role)
	inner, plain := b.plainText(n)
	if name == "" && plain && !hasRef {
		name, plain = inner, true
		if name != "" {
			s.WriteString(": " + name)
		}
		b.writeProperties(&s, n)
		return s.String(), true
	}
	if name != "" {
		s.WriteString(" " + strconv.Quote(name))
	}
	b.writeProperties(&s, n)
	if hasRef && n.BackendDOMNodeID != 0 {
		s.WriteString(" [ref=" + b.w.refs.refOf(place{b.frames, b.frame, b.loader, n.BackendDOMNodeID}) + "]")
	}
	value := oneLine(valueText(n.Value))
	if value == name {
		value = ""
	}
	if value == "" && plain && inner != name && !strings.Contains(name, inner) {
		value = inner
	}
	if value != "" {
		s.WriteString(": " + value)
	}
	return s.String(), plain
}

// plainText returns the text of an element that contains only text; the boolean is false for others.
func (b *frameWriter) plainText(n *accessibility.Node) (string, bool) {
	var parts []string
	for _, id := range n.ChildIDs {
		child := b.nodes[id]
		if child == nil {
			continue
		}
		role := valueText(child.Role)
		if child.Ignored || skippedRoles[role] && property(child, "focusable") != "true" {
			inner, plain := b.plainText(child)
			if _, holds := b.childFrames[child.BackendDOMNodeID]; !plain || holds {
				return "", false
			}
			parts = append(parts, inner)
			continue
		}
		switch role {
		case "StaticText":
			parts = append(parts, valueText(child.Name))
		case "InlineTextBox", "LineBreak", "ListMarker":
		default:
			return "", false
		}
	}
	if _, holds := b.childFrames[n.BackendDOMNodeID]; holds {
		return "", false
	}
	return oneLine(strings.Join(parts, " ")), true
}

func (b *frameWriter) writeProperties(s *strings.Builder, n *accessibility.Node) {
	for _, name := range shownProperties {
		switch value := property(n, name); value {
		case "", "false":
			if name == "expanded" && value == "false" {
				s.WriteString(" [collapsed]")
			}
		case "true":
			s.WriteString(" [" + name + "]")
		default:
			s.WriteString(" [" + name + "=" + truncate(value, 40) + "]")
		}
	}
	if address := property(n, "url"); address != "" && valueText(n.Role) == "link" {
		s.WriteString(" [url=" + truncate(b.shortenURL(address), 200) + "]")
	}
}

// shortenURL removes the scheme and host from an address if they are those of the document.
func (b *frameWriter) shortenURL(address string) string {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if f := b.frames.byID[b.frame]; f != nil {
		if i := strings.Index(f.url, "://"); i > 0 {
			end := strings.IndexByte(f.url[i+3:], '/')
			if end > 0 {
				if rest, ok := strings.CutPrefix(address, f.url[:i+3+end]); ok && strings.HasPrefix(rest, "/") {
					return rest
				}
			}
		}
	}
	return address
}

func property(n *accessibility.Node, name string) string {
	for _, p := range n.Properties {
		if string(p.Name) == name {
			return valueText(p.Value)
		}
	}
	return ""
}

// valueText returns a value as text.
func valueText(v *accessibility.Value) string {
	if v == nil || len(v.Value) == 0 {
		return ""
	}
	var s string
	if err := jsonv2.Unmarshal(v.Value, &s, jsonOptions); err == nil {
		return s
	}
	return string(v.Value)
}

// oneLine returns a text as one line, truncated if it is long.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	return truncate(s, maxName)
}

func toValid(s string) string { return strings.ToValidUTF8(s, "") }

// place is the position of an element. The loader distinguishes the documents that a frame
// shows one after another.
type place struct {
	frames *frames
	frame  cdp.FrameID
	loader cdp.LoaderID
	node   cdp.BackendNodeID
}

// references assigns names to elements. A reference always means the same element and is never
// reused.
type references struct {
	byPlace map[place]int
	places  map[int]place
	last    int
}

func newReferences() references {
	return references{byPlace: map[place]int{}, places: map[int]place{}}
}

func (r *references) refOf(p place) string {
	n, ok := r.byPlace[p]
	if !ok {
		r.last++
		n = r.last
		r.byPlace[p], r.places[n] = n, p
	}
	return "e" + strconv.Itoa(n)
}

// forget removes the references whose documents are gone. find reports these as stale, not as
// unknown.
func (r *references) forget(gone func(place) bool) {
	for p, n := range r.byPlace {
		if gone(p) {
			delete(r.byPlace, p)
			delete(r.places, n)
		}
	}
}

// find returns the place that a reference names.
func (r *references) find(ref string) (place, error) {
	digits, ok := strings.CutPrefix(ref, "e")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 1 || n > r.last {
		return place{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no reference %q", truncate(ref, 40)).
			WithHint("take references such as e12 from browser:snapshot or browser:find")
	}
	p, ok := r.places[n]
	if !ok {
		return place{}, staleError(ref, "its page has gone")
	}
	return p, nil
}

func staleError(ref, why string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeConflict, "the reference %s is stale: %s", ref, why).
		WithHint("take a new one from browser:snapshot or browser:find")
}

// isCurrent reports whether a frame still shows the document of a place. The caller holds mu.
func (w *browser) isCurrent(p place) bool {
	if p.frames.gone {
		return false
	}
	f := p.frames.byID[p.frame]
	return f != nil && f.loader == p.loader
}

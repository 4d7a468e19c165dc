package code

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code/journal"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/source"
)

// host answers one program. Its tool calls go through the runner as children of
// the call that runs the program, because ctx carries that call.
type host struct {
	*Service
	request  *source.Request
	language string
	session  *session.Run // nil without one
	view     view
	toolexec int    // as in Request
	instead  string // what to do where the engine cannot run the program
	asked    toolroom.ExecutionLimits

	stdout, stderr output
	refused        refused

	journal *journal.Journal
	head    journal.Head
	end     context.CancelCauseFunc // ends the program

	mu       sync.Mutex
	keepable bool           // the run may be taken over by another process
	kept     *run.Kept      // once it can be
	waiting  map[int]string // the approvals that calls wait for, by place in the journal
	working  int            // how many calls are under way that do not wait
	parking  bool           // no call begins any more
	ended    error          // why the program was ended from here
}

func (h *host) Call(ctx context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	args, err := bridge.ToJSON(arguments)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s cannot be sent: %w", tool, err)
	}
	r, err := h.call(ctx, toolroom.Call{Tool: tool, Arguments: args, Surface: "code", MaxOutput: -1})
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return value(r)
}

// call calls a tool, or gives what it answered the first time.
func (h *host) call(ctx context.Context, call toolroom.Call) (*toolroom.Result, error) {
	shown := &toolroom.ExecutionCall{Tool: call.Tool, Arguments: call.Arguments}
	if len(shown.Arguments) > maxShownArguments {
		shown.Arguments = nil // the receipt has them
	}
	e := journal.Entry{Tool: call.Tool, Hash: digest(call.Arguments), Shown: shown}
	return h.once(ctx, e, func(place int, approval string) *toolroom.Result {
		call.Approval = approval
		return h.run(ctx, place, h.unlisted(call))
	})
}

// maxShownArguments is how many bytes of arguments a result repeats per call.
const maxShownArguments = 2000

// value is what a program gets of a result: its value, or else its text, or
// else its content with bytes as bytes.
func value(r *toolroom.Result) (bridge.Value, error) {
	if len(r.Value) > 0 {
		return bridge.FromJSON(r.Value)
	}
	var list []bridge.Value
	text := true
	for _, c := range r.Content {
		text = text && c.Type == toolroom.ContentText
		list = append(list, content(c))
	}
	if len(list) == 0 {
		return nil, nil
	}
	if text {
		return r.Text(), nil
	}
	return list, nil
}

func content(c toolroom.Content) bridge.Value {
	m := bridge.Map{{Key: "type", Value: string(c.Type)}}
	add := func(key, text string) {
		if text != "" {
			m = append(m, bridge.Member{Key: key, Value: text})
		}
	}
	add("text", c.Text)
	add("media_type", c.MIMEType)
	add("uri", c.URI)
	if len(c.Data) > 0 {
		m = append(m, bridge.Member{Key: "data", Value: c.Data})
	}
	return m
}

func (h *host) Chain(ctx context.Context, list []bridge.Value) (bridge.Value, error) {
	text, err := bridge.ToJSON(list)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the steps cannot be sent: %w", err)
	}
	var steps []run.Step
	if err := json.Unmarshal(text, &steps); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the steps of the chain are not usable: %w", err).
			WithHint(`run_chain([{"tool": "a:b", "arguments": {}}, {"tool": "c:d", "use_previous": true}])`)
	}
	var broken error
	out := h.o.Runner.ChainOf(ctx, toolroom.Call{Surface: "code", MaxOutput: -1}, steps, func(ctx context.Context, call toolroom.Call) *toolroom.Result {
		r, err := h.call(ctx, call)
		if err != nil {
			broken = err
			return journal.Result(nil, err)
		}
		return r
	})
	if broken != nil {
		return nil, broken
	}
	if out.Error != nil {
		return nil, out.Error
	}
	if len(out.Value) == 0 {
		return nil, nil
	}
	return bridge.FromJSON(out.Value)
}

// ask is for what is no call of a tool: it has no effects, but must be answered
// in the same way each time.
func (h *host) ask(ctx context.Context, what, of string, answer func() (bridge.Value, error)) (bridge.Value, error) {
	r, err := h.once(ctx, journal.Entry{Tool: what, Hash: digest([]byte(of))}, func(int, string) *toolroom.Result {
		v, err := answer()
		if err != nil {
			return journal.Result(nil, err)
		}
		return journal.Result(bridge.ToJSON(v))
	})
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return bridge.FromJSON(r.Value)
}

func (h *host) Search(ctx context.Context, query string, limit int) (bridge.Value, error) {
	return h.ask(ctx, "search_tools", fmt.Sprint(limit, " ", query), func() (bridge.Value, error) { return h.search(query, limit), nil })
}

// form is how the calls that a program is shown are written: in its language.
func (h *host) form() catalog.Form {
	if h.language == "python" {
		return catalog.FormPython
	}
	return catalog.FormCode
}

func (h *host) search(query string, limit int) bridge.Value {
	found := h.o.Catalog.Search(query, catalog.SearchOptions{Limit: limit, Visible: h.o.Runner.Visible(h.request.Identity), Form: h.form()})
	list := []bridge.Value{}
	for _, hit := range found.Hits {
		list = append(list, bridge.Map{{Key: "id", Value: hit.ID}, {Key: "summary", Value: hit.Text}, {Key: "call", Value: hit.Call}})
	}
	return list
}

func (h *host) Describe(ctx context.Context, tool, level string) (bridge.Value, error) {
	return h.ask(ctx, "describe_tool", level+" "+tool, func() (bridge.Value, error) { return h.describe(ctx, tool, level) })
}

func (h *host) describe(ctx context.Context, tool, level string) (bridge.Value, error) {
	e, err := h.o.Catalog.Resolve(tool, h.o.Runner.Visible(h.request.Identity))
	if err != nil {
		return nil, err
	}
	d, err := h.o.Catalog.Describe(ctx, e, catalog.Level(level), h.form())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return bridge.FromJSON(text)
}

func (h *host) Put(ctx context.Context, name, mediaType string, data []byte) (bridge.Handle, error) {
	if name == "" {
		name = "artifact"
	}
	r, err := h.once(ctx, journal.Entry{Tool: "artifacts.put", Hash: digest([]byte(name + "\x00" + mediaType + "\x00" + string(data)))}, func(int, string) *toolroom.Result {
		a, err := h.o.Artifacts.Put(ctx, h.request.Identity.Key(), artifact.File, name, mediaType, bytes.NewReader(data))
		if err != nil {
			return journal.Result(nil, err)
		}
		return journal.Result(json.Marshal(a))
	})
	if err != nil {
		return bridge.Handle{}, err
	}
	var a toolroom.Artifact
	if err := r.Decode(&a); err != nil {
		return bridge.Handle{}, err
	}
	return bridge.Handle{ID: a.Handle, MediaType: a.MIMEType, Size: a.Size}, nil
}

// maxPart is how much of an artifact goes over the bridge at once.
const maxPart = 4 << 20

func (h *host) Get(ctx context.Context, handle string, offset, length int64) ([]byte, bridge.Handle, error) {
	f, a, err := h.o.Artifacts.Open(ctx, h.request.Identity.Key(), strings.TrimPrefix(handle, "toolroom://artifacts/"))
	if err != nil {
		return nil, bridge.Handle{}, err
	}
	defer f.Close()
	if length <= 0 || length > maxPart {
		length = maxPart
	}
	if offset < 0 || offset > a.Size {
		return nil, bridge.Handle{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the artifact has %d bytes, there is no byte %d", a.Size, offset)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, offset, length))
	return data, bridge.Handle{ID: a.Handle, MediaType: a.MIMEType, Size: a.Size}, err
}

func (h *host) Print(stream, text string) {
	out := &h.stdout
	if stream == "stderr" {
		out = &h.stderr
	}
	if text = out.write(text); text == "" {
		return // it was told before the program began anew
	}
	chunk, err := json.Marshal(map[string]string{"stream": stream, "text": text})
	if err == nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: chunk})
	}
}

func (h *host) Progress(done, total float64, message string) {
	if h.journal.Left() {
		return // it was told before the program began anew
	}
	h.request.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: done, Total: total, Message: message}})
}

func (h *host) Log(level, message string, fields bridge.Map) {
	switch level {
	case "debug", "info", "warning", "error":
	default:
		level = "info"
	}
	if h.journal.Left() {
		return
	}
	entry := &toolroom.Log{Level: level, Message: message}
	if len(fields) > 0 {
		entry.Data, _ = bridge.ToJSON(fields) // a line without its fields is still a line
	}
	h.request.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: entry})
}

// output is one of a program's two streams.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	told int // how many bytes of it have been told
}

// write adds text and returns what of it has not been told yet.
func (o *output) write(text string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := o.text.Len()
	o.text.WriteString(text)
	if o.text.Len() <= o.told {
		return ""
	}
	text = text[max(o.told-from, 0):]
	o.told = o.text.Len()
	return text
}

func (o *output) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Reset()
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

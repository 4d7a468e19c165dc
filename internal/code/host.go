package code

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/source"
)

// host answers one program. Its tool calls go through the runner as children of
// the call that runs the program, because ctx carries that call.
type host struct {
	*Service
	request *source.Request
	session *session.Run // nil without one

	stdout, stderr output

	mu      sync.Mutex
	calls   []toolroom.ExecutionCall
	journal journal
}

// rewind begins anew for the next engine: output is forgotten, answers are not.
func (h *host) rewind() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stdout.reset()
	h.stderr.reset()
	h.journal.rewind()
}

// made are the calls so far.
func (h *host) made() []toolroom.ExecutionCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]toolroom.ExecutionCall{}, h.calls...)
}

func (h *host) Call(ctx context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	args, err := bridge.ToJSON(arguments)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s cannot be sent: %w", tool, err)
	}
	if e, recorded, err := h.recorded(tool, args); recorded || err != nil {
		return e.value, cmp.Or(e.err, err)
	}
	at := h.began(tool, args)
	started := time.Now()
	result := h.run(ctx, toolroom.Call{Tool: tool, Arguments: args, Surface: "code", MaxOutput: -1})
	h.ended(at, result, time.Since(started))
	e := answered{tool: tool, arguments: args}
	if result.Error != nil {
		e.err = result.Error
	} else {
		e.value, e.err = value(result)
	}
	h.mu.Lock()
	h.journal.add(e)
	h.mu.Unlock()
	return e.value, e.err
}

func (h *host) recorded(tool string, args json.RawMessage) (answered, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.journal.answer(tool, args)
}

func (h *host) began(tool string, args json.RawMessage) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(args) > maxShownArguments {
		args = nil // the receipt has them
	}
	h.calls = append(h.calls, toolroom.ExecutionCall{Tool: tool, Arguments: args})
	return len(h.calls) - 1
}

// maxShownArguments is how many bytes of arguments a result repeats per call.
const maxShownArguments = 2000

func (h *host) ended(at int, r *toolroom.Result, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &h.calls[at]
	c.Call, c.Tool, c.Status, c.Duration = r.Call, r.Tool, r.Status, took
	if r.Error != nil {
		c.Code = r.Error.Code
	}
}

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
	at := make([]int, len(steps))
	for i, s := range steps {
		at[i] = h.began(s.Tool, s.Arguments)
	}
	started := time.Now()
	out := h.chain(ctx, toolroom.Call{Surface: "code", MaxOutput: -1}, steps)
	for i, s := range out.Steps {
		if s.Result != nil {
			h.ended(at[i], s.Result, time.Since(started))
		}
	}
	if out.Error != nil {
		return nil, out.Error
	}
	if len(out.Value) == 0 {
		return nil, nil
	}
	return bridge.FromJSON(out.Value)
}

func (h *host) Search(_ context.Context, query string, limit int) (bridge.Value, error) {
	found := h.o.Catalog.Search(query, catalog.SearchOptions{Limit: limit, Visible: h.o.Runner.Visible(h.request.Identity), Form: catalog.FormCode})
	list := []bridge.Value{}
	for _, hit := range found.Hits {
		list = append(list, bridge.Map{{Key: "id", Value: hit.ID}, {Key: "summary", Value: hit.Text}, {Key: "call", Value: hit.Call}})
	}
	return list, nil
}

func (h *host) Describe(ctx context.Context, tool, level string) (bridge.Value, error) {
	e, err := h.o.Catalog.Resolve(tool, h.o.Runner.Visible(h.request.Identity))
	if err != nil {
		return nil, err
	}
	d, err := h.o.Catalog.Describe(ctx, e, catalog.Level(level), catalog.FormCode)
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
	a, err := h.o.Artifacts.Put(ctx, h.request.Identity.Key(), artifact.File, name, mediaType, strings.NewReader(string(data)))
	if err != nil {
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
	out.write(text)
	chunk, err := json.Marshal(map[string]string{"stream": stream, "text": text})
	if err == nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: chunk})
	}
}

func (h *host) Progress(done, total float64, message string) {
	h.request.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: done, Total: total, Message: message}})
}

func (h *host) Log(level, message string, fields bridge.Map) {
	switch level {
	case "debug", "info", "warning", "error":
	default:
		level = "info"
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
}

func (o *output) write(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.WriteString(text)
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

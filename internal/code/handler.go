package code

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/source"
)

// handler is the call handler of one program. Its tool calls pass the runner as children of
// the call that runs the program, because ctx carries that call.
type handler struct {
	*Service
	request         *source.Request
	language        string
	session         *session.Run // nil without one
	function        *Function    // nil for programs of code:execute
	view            view
	toolexecLine    int    // as in Request
	engineHint      string // the hint if the engine cannot run the program
	requestedLimits toolroom.ExecutionLimits

	stdout, stderr output
	line           string // the incomplete last line of a function that prints lines
	refusals       refusalLog

	// programs are the command-line programs that the program mentions.
	programs []programUse
	// computesPrograms reports whether the program computes names of command-line programs.
	// programErrors says why command-line programs that it mentions cannot be called.
	computesPrograms bool
	programErrors    map[string]error

	journal *session.Journal
	head    session.JournalHead
	cancel  context.CancelCauseFunc // ends the program

	mu            sync.Mutex
	resumable     bool            // another process may take over the run
	suspension    *run.Suspension // set once the run can be taken over
	waiting       map[int]string  // the approvals that calls wait for, by index in the journal
	inProgress    int             // number of calls in progress that do not wait
	suspending    bool            // no further call may start
	maxCalls      int             // the limit of calls
	callsMade     int             // calls made or reserved for a chain
	callsExceeded bool            // the program asked for more calls than its limit
	endErr        error           // why the handler ended the program
}

func (h *handler) Call(ctx context.Context, tool string, arguments bridge.Map) (bridge.Value, error) {
	args, err := bridge.ToJSON(arguments)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot encode the arguments of %s: %w", tool, err)
	}
	if err := h.reserveCalls(1); err != nil {
		return nil, err
	}
	r, err := h.call(ctx, toolroom.Call{Tool: tool, Arguments: args, Surface: "code", MaxOutput: -1})
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return resultValue(r)
}

// call calls a tool, or returns the recorded answer.
func (h *handler) call(ctx context.Context, call toolroom.Call) (*toolroom.Result, error) {
	shown := &toolroom.ExecutionCall{Tool: call.Tool, Arguments: call.Arguments}
	if len(shown.Arguments) > maxShownArguments {
		shown.Arguments = nil // the receipt contains them
	}
	if err := h.ensureProgram(ctx, call.Tool); err != nil {
		return nil, err
	}
	e := session.JournalEntry{Tool: call.Tool, Hash: digest(call.Arguments), Listed: shown}
	return h.replayOrServe(ctx, e, func(place int, approval string) *toolroom.Result {
		call.Approval = approval
		return h.makeCall(ctx, place, h.asProgramCall(call))
	})
}

// maxShownArguments is the maximum size of arguments, per call, that a result repeats.
const maxShownArguments = 2000

// resultValue returns the value of a result for a program: its value, or else its text, or else
// its content with binary data as bytes.
func resultValue(r *toolroom.Result) (bridge.Value, error) {
	if len(r.Value) > 0 {
		return bridge.FromJSON(r.Value)
	}
	var list []bridge.Value
	text := true
	for _, c := range r.Content {
		text = text && c.Type == toolroom.ContentText
		list = append(list, contentValue(c))
	}
	if len(list) == 0 {
		return nil, nil
	}
	if text {
		return r.Text(), nil
	}
	return list, nil
}

func contentValue(c toolroom.Content) bridge.Value {
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

func (h *handler) Chain(ctx context.Context, list []bridge.Value) (bridge.Value, error) {
	text, err := bridge.ToJSON(list)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot encode the steps: %w", err)
	}
	var steps []toolroom.Step
	if err := jsonx.UnmarshalKnown(text, &steps, jsonx.Limits{Bytes: len(text), Depth: math.MaxInt}); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid steps: %w", err).
			WithHint(`run_chain([{"tool": "a:b", "arguments": {}}, {"tool": "c:d", "use_previous": true}])`)
	}
	reserved := min(len(steps), run.MaxChainSteps)
	if err := h.reserveCalls(reserved); err != nil {
		return nil, chainError(run.RefusedChain(err))
	}
	defer func() { h.returnCalls(reserved) }()
	var broken error
	out := h.o.Runner.ChainWith(ctx, toolroom.Call{Surface: "code", MaxOutput: -1}, steps, func(ctx context.Context, call toolroom.Call) *toolroom.Result {
		if reserved > 0 {
			reserved--
		} else if err := h.reserveCalls(1); err != nil { // steps were repeated
			return refusedCall(call.Tool, err)
		}
		r, err := h.call(ctx, call)
		if err != nil {
			broken = err
			return session.JournalResult(nil, err)
		}
		return r
	})
	if broken != nil {
		return nil, broken
	}
	if out.Error != nil {
		return nil, chainError(out)
	}
	if len(out.Value) == 0 {
		return nil, nil
	}
	return bridge.FromJSON(out.Value)
}

// answerOnce serves a request that is not a tool call. Such a request has no effects, but a
// resumed program must get the same answer again.
func (h *handler) answerOnce(ctx context.Context, what, of string, answer func() (bridge.Value, error)) (bridge.Value, error) {
	r, err := h.replayOrServe(ctx, session.JournalEntry{Tool: what, Hash: digest([]byte(of))}, func(int, string) *toolroom.Result {
		v, err := answer()
		if err != nil {
			return session.JournalResult(nil, err)
		}
		return session.JournalResult(bridge.ToJSON(v))
	})
	if err != nil {
		return nil, err
	}
	if r.Error != nil {
		return nil, r.Error
	}
	return bridge.FromJSON(r.Value)
}

func (h *handler) Search(ctx context.Context, query string, limit int) (bridge.Value, error) {
	return h.answerOnce(ctx, "search_tools", fmt.Sprint(limit, " ", query), func() (bridge.Value, error) { return h.search(query, limit), nil })
}

// form returns the form of example calls in the program's language.
func (h *handler) form() toolroom.Form {
	if h.language == "python" {
		return toolroom.FormPython
	}
	return toolroom.FormCode
}

// catalogView returns the part of the catalog that the program's caller may see.
func (h *handler) catalogView() catalog.View {
	return h.o.Runner.View(h.request.Identity, h.request.Environment)
}

func (h *handler) search(query string, limit int) bridge.Value {
	found := h.o.Catalog.Search(query, catalog.SearchOptions{
		Limit: limit, View: h.catalogView(), Form: h.form(),
		Caller: &catalog.Caller{Identity: h.request.Identity, Session: h.request.Session},
	})
	list := []bridge.Value{}
	for _, hit := range found.Hits {
		list = append(list, bridge.Map{{Key: "id", Value: hit.ID}, {Key: "summary", Value: hit.Text}, {Key: "call", Value: hit.Call}})
	}
	return list
}

func (h *handler) Describe(ctx context.Context, tool, level string) (bridge.Value, error) {
	return h.answerOnce(ctx, "describe_tool", level+" "+tool, func() (bridge.Value, error) { return h.describe(ctx, tool, level) })
}

func (h *handler) describe(ctx context.Context, tool, level string) (bridge.Value, error) {
	as := toolroom.Call{Tool: tool, Identity: h.request.Identity, Environment: h.request.Environment}
	e, err := h.o.Runner.Find(ctx, &as)
	if err != nil {
		return nil, err
	}
	if !h.o.Runner.Allowed(as.Identity, e) {
		return nil, toolroom.Errorf(toolroom.CodeDenied, "you may not call %s", e.Tool.ID)
	}
	d, err := h.o.Catalog.Describe(ctx, e, toolroom.Level(level), h.form())
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return bridge.FromJSON(text)
}

func (h *handler) Put(ctx context.Context, name, mediaType string, data []byte) (bridge.Handle, error) {
	if name == "" {
		name = "artifact"
	}
	r, err := h.replayOrServe(ctx, session.JournalEntry{Tool: "artifacts.put", Hash: digest([]byte(name + "\x00" + mediaType + "\x00" + string(data)))}, func(int, string) *toolroom.Result {
		a, err := h.o.Artifacts.Put(ctx, identity.Owner(h.request.Identity), artifact.File, name, mediaType, bytes.NewReader(data))
		if err != nil {
			return session.JournalResult(nil, err)
		}
		return session.JournalResult(json.Marshal(a))
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

// maxPart is the size of the parts in which an artifact crosses the bridge.
const maxPart = 4 << 20

func (h *handler) Get(ctx context.Context, handle string, offset, length int64) ([]byte, bridge.Handle, error) {
	if err := cmp.Or(h.checkToken(ctx), h.o.Runner.CheckToken(ctx, h.request.Identity)); err != nil {
		return nil, bridge.Handle{}, err
	}
	f, a, err := h.o.Artifacts.Open(ctx, identity.Owner(h.request.Identity), strings.TrimPrefix(handle, "toolroom://artifacts/"))
	if err != nil {
		return nil, bridge.Handle{}, err
	}
	defer f.Close()
	if length <= 0 || length > maxPart {
		length = maxPart
	}
	if offset < 0 || offset > a.Size {
		return nil, bridge.Handle{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the artifact has %d bytes; offset %d is beyond its end", a.Size, offset)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, offset, length))
	return data, bridge.Handle{ID: a.Handle, MediaType: a.MIMEType, Size: a.Size}, err
}

func (h *handler) Print(stream, text string) {
	out := &h.stdout
	if stream == "stderr" {
		out = &h.stderr
	}
	if text = out.write(text); text == "" {
		return // it was reported before the program was restarted
	}
	if stream != "stderr" && h.function != nil && h.function.Output != "" {
		h.emitLines(text)
		return
	}
	chunk, err := json.Marshal(map[string]string{"stream": stream, "text": text})
	if err == nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: chunk})
	}
}

func (h *handler) Progress(done, total float64, message string) {
	if h.journal.HasUnreplayed() {
		return // it was reported before the program was restarted
	}
	h.request.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: done, Total: total, Message: message}})
}

func (h *handler) Log(level, message string, fields bridge.Map) {
	if h.emitChunk(level, fields) {
		return
	}
	switch level {
	case "debug", "info", "warning", "error":
	default:
		level = "info"
	}
	if h.journal.HasUnreplayed() {
		return
	}
	entry := &toolroom.Log{Level: level, Message: message}
	if len(fields) > 0 {
		entry.Data, _ = bridge.ToJSON(fields) // without its fields the line is still useful
	}
	h.request.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: entry})
}

// output is one output stream of a program.
type output struct {
	mu       sync.Mutex
	text     strings.Builder
	reported int // number of bytes already reported
}

// write appends text and returns the part that has not been reported yet.
func (o *output) write(text string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	from := o.text.Len()
	o.text.WriteString(text)
	if o.text.Len() <= o.reported {
		return ""
	}
	text = text[max(o.reported-from, 0):]
	o.reported = o.text.Len()
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

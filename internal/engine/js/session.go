package js

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

// A session's state is a map of three members: the name of the image that it
// is a change of, the names of its variables, and the change.
const (
	stateImage     = "image"
	stateVariables = "variables"
	stateMemory    = "memory"
)

// past is what a run goes on from.
type past struct {
	session string // empty means that nothing is to be kept
	state   []byte
	seed    []byte // of its random numbers; empty draws them from the system
}

// maxVariables is how many names of variables a state tells.
const maxVariables = 10_000

// maxPacked is how many bytes a packed change may have, so that a start frame
// holds it together with a program.
const maxPacked = 12 << 20

var errPacked = fmt.Errorf("its variables take more than %d MiB packed", maxPacked>>20)

// runSession runs a program from the state of its session, and sends the state
// after it with the last frame: only then does the engine stand still.
func (s *server) runSession(ctx context.Context, isolate *quickjs.Isolate, j job) error {
	if failure := load(isolate, s.machine, j.past.state); failure != nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: failure})
	}
	var last *bridge.Frame
	send := func(f quickjs.Frame) (bool, error) {
		kind := bridge.Kind(f.Kind)
		if kind != bridge.Done && kind != bridge.Failed {
			return s.send(j.token, f)
		}
		encoded, err := appendBody(nil, quickjs.Frame{Body: bytes.Clone(f.Body), Text: f.Text})
		if err != nil {
			return true, err
		}
		body, err := bridge.DecodeValue(encoded)
		if err != nil {
			return true, fmt.Errorf("read the guest's last frame: %w", err)
		}
		fields, _ := body.(bridge.Map)
		last = &bridge.Frame{Kind: kind, Token: j.token, Body: fields}
		return true, nil
	}
	end, err := isolate.Run(ctx, quickjs.Port{Inbox: j.inbox, Send: send, Keep: true, Seed: j.past.seed})
	if end != quickjs.Finished || last == nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: describe(end, err)})
	}
	variables, _ := last.Body.Get("variables").([]bridge.Value)
	last.Body = slices.DeleteFunc(last.Body, func(m bridge.Member) bool { return m.Key == "variables" })
	memory, err := isolate.Save(ctx)
	if err == nil && len(memory) > maxPacked {
		err = errPacked
	}
	if err == nil {
		var state []byte
		state, err = bridge.AppendValue(nil, bridge.Map{
			{Key: stateImage, Value: s.machine.Image()},
			{Key: stateVariables, Value: variables[:min(len(variables), maxVariables)]},
			{Key: stateMemory, Value: memory},
		})
		last.Body = append(last.Body, bridge.Member{Key: "state", Value: state})
	}
	if err == nil {
		err = s.wire.Write(*last)
	}
	if err != nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: notKept(err)})
	}
	return nil
}

// notKept is the body of the last frame of a run whose state cannot be kept.
func notKept(err error) bridge.Map {
	kind := bridge.FailProgram
	var tooLarge *quickjs.TooLargeError
	var frame *bridge.TooLargeError
	if errors.As(err, &tooLarge) || errors.As(err, &frame) || errors.Is(err, errPacked) {
		kind = bridge.FailLimit
	}
	return bridge.Map{{Key: "kind", Value: string(kind)}, {Key: "limit", Value: "session"}, {Key: "message", Value: fmt.Sprintf("the session could not be kept: %v", err)}}
}

// load puts an isolate into the state of a session; an empty one is new.
func load(isolate *quickjs.Isolate, m *quickjs.Machine, state []byte) bridge.Map {
	if len(state) == 0 {
		return nil
	}
	refused := func(message string) bridge.Map {
		return bridge.Map{{Key: "kind", Value: string(bridge.FailUnsupported)}, {Key: "type", Value: "Unsupported"}, {Key: "message", Value: message}}
	}
	fields, err := readState(state)
	if err != nil {
		return refused(err.Error())
	}
	if image := fields.Text(stateImage); image != m.Image() {
		return refused(fmt.Sprintf("the session was kept by another version of the js engine (image %.12s, this one is %.12s), whose variables cannot be read: delete the session and build it anew, or run that version of Toolroom", image, m.Image()))
	}
	memory, _ := fields.Get(stateMemory).([]byte)
	if err := isolate.Load(memory); err != nil {
		return refused(fmt.Sprintf("the session cannot be loaded: %v", err))
	}
	return nil
}

func readState(state []byte) (bridge.Map, error) {
	value, err := bridge.DecodeValue(state)
	fields, ok := value.(bridge.Map)
	if err != nil || !ok || fields.Text(stateImage) == "" {
		return nil, errors.New("the session's state is none of the js engine: delete the session, or name the engine that made it")
	}
	return fields, nil
}

// inSession fits a program to the variables of its session: their names are no
// tools, and no inputs.
func inSession(p *bridge.Program) error {
	if len(p.State) == 0 {
		return nil
	}
	fields, err := readState(p.State)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%w", err)
	}
	list, _ := fields.Get(stateVariables).([]bridge.Value)
	names := make(map[string]bool, len(list))
	for _, name := range list {
		if text, ok := name.(string); ok {
			names[text] = true
		}
	}
	for _, input := range p.Inputs {
		if names[input.Key] {
			return toolroom.Errorf(toolroom.CodeConflict, "the input %q would replace a variable of session %s", input.Key, p.Session).
				WithHint("give the input another name, or assign in the program: %s = …", input.Key)
		}
	}
	tools := slices.Clone(p.Tools)
	for i := range tools {
		tools[i].Globals = slices.DeleteFunc(slices.Clone(tools[i].Globals), func(path []string) bool { return names[path[0]] })
	}
	p.Tools = tools
	return nil
}

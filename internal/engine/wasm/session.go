package wasm

import (
	"errors"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// state is the session state that a run leaves for the next.
type state struct {
	image     string   // the name of the image that memory differs from
	variables []string // names that the session's programs have declared, at most 10,000
	memory    []byte   // the packed difference
}

const (
	maxVariables = 10_000
	// maxPackedState is the largest packed difference in bytes, so that a start frame can
	// hold it together with a program.
	maxPackedState = 12 << 20
)

// encode returns the encoded state. It fails with a [TooLargeError].
func (s state) encode() ([]byte, error) {
	if len(s.memory) > maxPackedState {
		return nil, TooLargeError(fmt.Sprintf("its variables take more than %d MiB packed", maxPackedState>>20))
	}
	names := make([]bridge.Value, min(len(s.variables), maxVariables))
	for i := range names {
		names[i] = s.variables[i]
	}
	return bridge.AppendValue(nil, bridge.Map{
		{Key: "image", Value: s.image}, {Key: "variables", Value: names}, {Key: "memory", Value: s.memory},
	})
}

// decodeState decodes the state of a session of the named engine. Before the first run
// the state is empty.
func decodeState(engine string, data []byte) (state, error) {
	if len(data) == 0 {
		return state{}, nil
	}
	value, err := bridge.DecodeValue(data)
	fields, ok := value.(bridge.Map)
	if err != nil || !ok || fields.Text("image") == "" {
		return state{}, toolroom.Errorf(toolroom.CodeUnsupported, "the session's state was not made by the %s engine: delete the session, or name the engine that made it", engine)
	}
	memory, _ := fields.Get("memory").([]byte)
	return state{fields.Text("image"), stringsIn(fields.Get("variables")), memory}, nil
}

// stringsIn returns the strings in a list.
func stringsIn(list bridge.Value) []string {
	values, _ := list.([]bridge.Value)
	var names []string
	for _, value := range values {
		if text, ok := value.(string); ok {
			names = append(names, text)
		}
	}
	return names
}

// PrepareSession prepares a program to continue from its state: variables of the session hide
// tools of the same names. It returns an error if an input has the name of a variable.
func PrepareSession(engine string, p *bridge.Program) error {
	s, err := decodeState(engine, p.State)
	if err != nil || len(s.variables) == 0 {
		return err
	}
	taken := make(map[string]bool, len(s.variables))
	for _, name := range s.variables {
		taken[name] = true
	}
	for _, input := range p.Inputs {
		if taken[input.Key] {
			return toolroom.Errorf(toolroom.CodeConflict, "the input %q would replace a variable of session %s", input.Key, p.Session).
				WithHint("give the input another name, or assign in the program: %s = …", input.Key)
		}
	}
	tools := slices.Clone(p.Tools)
	for i := range tools {
		tools[i].Globals = slices.DeleteFunc(slices.Clone(tools[i].Globals), func(path []string) bool { return taken[path[0]] })
	}
	p.Tools = tools
	return nil
}

// Resume puts an isolate into the state of a session of the named engine. If that fails,
// it returns the body of the run's last frame, else nil.
func (m *Machine[I]) Resume(i I, engine string, data []byte) bridge.Map {
	if len(data) == 0 {
		return nil
	}
	refused := func(message string) bridge.Map {
		return bridge.Map{{Key: "kind", Value: string(bridge.FailUnsupported)}, {Key: "type", Value: "Unsupported"}, {Key: "message", Value: message}}
	}
	s, err := decodeState(engine, data)
	if err != nil {
		return refused(err.Error())
	}
	if image := m.name(); s.image != image {
		return refused(fmt.Sprintf("the session was kept by another version of the %s engine (image %.12s, this one is %.12s), whose variables cannot be read: delete the session and build it anew, or run that version of Toolroom", engine, s.image, image))
	}
	if err := i.instance().Load(s.memory); err != nil {
		return refused(fmt.Sprintf("the session cannot be loaded: %v", err))
	}
	return nil
}

// FinishSession adds the state of a session, which save returns packed, to a run's last
// frame, and sends it. If the state cannot be kept, it sends a frame that says why instead.
func (m *Machine[I]) FinishSession(last bridge.Frame, save func() ([]byte, error), send func(bridge.Frame) error) error {
	s := state{image: m.name(), variables: stringsIn(last.Body.Get("variables"))}
	last.Body = slices.DeleteFunc(last.Body, func(m bridge.Member) bool { return m.Key == "variables" })
	var err error
	var encoded []byte
	if s.memory, err = save(); err == nil {
		encoded, err = s.encode()
	}
	if err == nil {
		last.Body = append(last.Body, bridge.Member{Key: "state", Value: encoded})
		err = send(last)
	}
	if err == nil {
		return nil
	}
	kind := bridge.FailProgram
	var large TooLargeError
	var frame *bridge.TooLargeError
	if errors.As(err, &large) || errors.As(err, &frame) {
		kind = bridge.FailLimit
	}
	return send(bridge.Frame{Kind: bridge.Failed, Token: last.Token, Body: bridge.Map{
		{Key: "kind", Value: string(kind)}, {Key: "limit", Value: "session"}, {Key: "message", Value: fmt.Sprintf("the session could not be kept: %v", err)},
	}})
}

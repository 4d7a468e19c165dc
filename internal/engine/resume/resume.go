// Package resume is shared by the engines that keep session state as memory. It
// defines the state between two runs, and prepares a program to continue from it.
package resume

import (
	"fmt"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// State is the session state that a run leaves for the next.
type State struct {
	// Image names the image that Memory differs from.
	Image string
	// Variables are names that the session's programs have declared, at most 10,000.
	Variables []string
	// Memory is the packed difference.
	Memory []byte
}

// The members of a state.
const (
	image     = "image"
	variables = "variables"
	memory    = "memory"
)

const (
	maxVariables = 10_000
	// maxMemory is the largest packed difference in bytes, so that a start frame can
	// hold it together with a program.
	maxMemory = 12 << 20
)

// TooLargeError reports that a state is too large to keep.
type TooLargeError struct{}

func (TooLargeError) Error() string {
	return fmt.Sprintf("its variables take more than %d MiB packed", maxMemory>>20)
}

// Encode returns the encoded state. It fails with a [TooLargeError].
func (s State) Encode() ([]byte, error) {
	if len(s.Memory) > maxMemory {
		return nil, TooLargeError{}
	}
	names := make([]bridge.Value, min(len(s.Variables), maxVariables))
	for i := range names {
		names[i] = s.Variables[i]
	}
	return bridge.AppendValue(nil, bridge.Map{
		{Key: image, Value: s.Image}, {Key: variables, Value: names}, {Key: memory, Value: s.Memory},
	})
}

// Decode decodes the state of a session of the named engine. Before the first run
// the state is empty.
func Decode(engine string, data []byte) (State, error) {
	if len(data) == 0 {
		return State{}, nil
	}
	value, err := bridge.DecodeValue(data)
	fields, ok := value.(bridge.Map)
	if err != nil || !ok || fields.Text(image) == "" {
		return State{}, toolroom.Errorf(toolroom.CodeUnsupported, "the session's state was not made by the %s engine: delete the session, or name the engine that made it", engine)
	}
	s := State{Image: fields.Text(image)}
	s.Memory, _ = fields.Get(memory).([]byte)
	s.Variables = Names(fields.Get(variables))
	return s, nil
}

// Names returns the texts in a list.
func Names(list bridge.Value) []string {
	values, _ := list.([]bridge.Value)
	var names []string
	for _, value := range values {
		if text, ok := value.(string); ok {
			names = append(names, text)
		}
	}
	return names
}

// Fit prepares a program to continue from its state: names of variables hide tools,
// and must not be inputs.
func Fit(engine string, p *bridge.Program) error {
	s, err := Decode(engine, p.State)
	if err != nil || len(s.Variables) == 0 {
		return err
	}
	taken := make(map[string]bool, len(s.Variables))
	for _, name := range s.Variables {
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

package release

import (
	"encoding/json"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
)

// Fake is a recorded answer to a call of another tool.
type Fake struct {
	Tool      string          `json:"tool" yaml:"tool"`
	Arguments json.RawMessage `json:"arguments" yaml:"arguments"`
	Value     json.RawMessage `json:"value,omitempty" yaml:"value"`
	Error     *toolroom.Error `json:"error,omitempty" yaml:"error"`
}

// fakeAnswers returns a function that answers calls with the fakes of a case, each once and the
// last of equal ones again.
func (c *Case) fakeAnswers() func(*toolroom.Call) *toolroom.Result {
	used := make([]bool, len(c.Fakes))
	var mu sync.Mutex
	return func(call *toolroom.Call) *toolroom.Result {
		mu.Lock()
		defer mu.Unlock()
		found := -1
		readings, _ := toolroom.Spellings(call.Tool) // what cannot be read has no fake
		for i, f := range c.Fakes {
			if f.matches(readings, call.Arguments) {
				if found = i; !used[i] {
					break
				}
			}
		}
		r := &toolroom.Result{Call: call.ID, Tool: call.Tool, Status: toolroom.StatusOK, Effects: toolroom.EffectsNone}
		if found < 0 {
			r.Error = toolroom.Errorf(toolroom.CodeNotFound, "case %q has no recorded answer to %s with the arguments %s", c.Name, call.Tool, shorten(call.Arguments))
		} else {
			used[found] = true
			r.Value, r.Error = c.Fakes[found].Value, c.Fakes[found].Error
		}
		if r.Error != nil {
			r.Status = r.Error.Code.Info().Status
		}
		return r
	}
}

// matches reports whether the fake is the answer to a call.
func (f *Fake) matches(readings []toolroom.ID, arguments json.RawMessage) bool {
	id, err := toolroom.ParseID(f.Tool)
	if err != nil {
		return false
	}
	same := func(r toolroom.ID) bool {
		return r.Name == id.Name && (r.Namespace == "" || r.Namespace == id.Namespace)
	}
	return slices.ContainsFunc(readings, same) && sameJSON(orObject(f.Arguments), orObject(arguments))
}

// orObject returns arguments; none are an empty object.
func orObject(a json.RawMessage) json.RawMessage {
	if len(a) == 0 {
		return json.RawMessage("{}")
	}
	return a
}

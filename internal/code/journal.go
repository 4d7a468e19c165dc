package code

import (
	"bytes"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// journal is what tools have answered a program, so that the program can begin
// anew on another engine without any tool being called twice.
type journal struct {
	entries []answered
	replay  []answered // those of the engine before that have not been asked for again
}

type answered struct {
	tool      string
	arguments json.RawMessage
	value     bridge.Value
	err       error
}

func (j *journal) add(e answered) { j.entries = append(j.entries, e) }

// rewind makes all answers so far those to be given again.
func (j *journal) rewind() { j.replay = append([]answered(nil), j.entries...) }

// answer gives a recorded answer. While some are left, a call that was not made
// before is an error: the program took another way, and what it did the first
// time can no longer be told apart from what it does now.
func (j *journal) answer(tool string, arguments json.RawMessage) (answered, bool, error) {
	if len(j.replay) == 0 {
		return answered{}, false, nil
	}
	for i, e := range j.replay {
		if e.tool == tool && bytes.Equal(e.arguments, arguments) {
			j.replay = append(j.replay[:i], j.replay[i+1:]...)
			return e, true, nil
		}
	}
	e := toolroom.Errorf(toolroom.CodeConflict, "the program was begun anew on another engine and called %s, which it had not called before", tool)
	return answered{}, false, e.WithHint("name the engine, so that the program is not begun twice")
}

package code

import (
	"encoding/json"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestAJournalGivesEachAnswerOnceAndStopsAProgramThatTakesAnotherWay(t *testing.T) {
	t.Parallel()
	var j journal
	args := json.RawMessage(`{"n":1}`)
	if _, recorded, err := j.answer("a:b", args); recorded || err != nil {
		t.Fatal("an empty journal has an answer")
	}
	j.add(entryOf("a:b", args, int64(1)))
	j.add(entryOf("a:b", args, int64(2)))
	j.rewind()
	for want := int64(1); want <= 2; want++ {
		e, recorded, err := j.answer("a:b", args)
		if !recorded || err != nil || e.value != want {
			t.Fatalf("answer %d is %v, %v, %v", want, e.value, recorded, err)
		}
	}
	if _, recorded, err := j.answer("a:b", args); recorded || err != nil {
		t.Errorf("a third call was answered from the journal: %v, %v", recorded, err)
	}
	j.rewind()
	if _, _, err := j.answer("a:b", json.RawMessage(`{"n":2}`)); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("another call was let through: %v", err)
	}
}

func entryOf(tool string, args json.RawMessage, value int64) answered {
	return answered{tool: tool, arguments: args, value: value}
}

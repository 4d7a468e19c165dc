package session_test

import (
	"errors"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/session"
)

func TestAJournalGivesEachAnswerOnceAndStopsAProgramThatTakesAnotherWay(t *testing.T) {
	t.Parallel()
	one := session.JournalEntry{Tool: "a:b", Hash: "1"}
	j := &session.Journal{}
	for _, value := range []string{"1", "2"} {
		place, _, again, err := j.Ask(t.Context(), one)
		if again || err != nil {
			t.Fatal("a journal that begins knows the call")
		}
		if err := j.Update(place, func(e *session.JournalEntry) { e.Result = &toolroom.Result{Value: []byte(value)} }); err != nil {
			t.Fatal(err)
		}
	}
	j.Rewind()
	for _, want := range []string{"1", "2"} {
		if _, found, _, err := j.Ask(t.Context(), one); err != nil || found.Result == nil || string(found.Result.Value) != want {
			t.Fatalf("the answer is %+v, %v, want %s", found.Result, err, want)
		}
	}
	if _, found, _, err := j.Ask(t.Context(), one); err != nil || found.Result != nil {
		t.Errorf("a third call was answered from the journal: %+v, %v", found, err)
	}
	j.Rewind()
	var diverged *session.Divergence
	if _, _, _, err := j.Ask(t.Context(), session.JournalEntry{Tool: "c:d", Hash: "1"}); !errors.As(err, &diverged) || diverged.Expected != "a:b" || diverged.Asked != "c:d" {
		t.Errorf("another call was let through: %v", err)
	}
}

func TestACallThatWasUnderWayIsGivenBackWhenAllAnswersAre(t *testing.T) {
	t.Parallel()
	j := session.ResumeJournal([]session.JournalEntry{
		{Tool: "pay", Hash: "1", Approval: "apr_1"},
		{Tool: "order", Hash: "1", Result: &toolroom.Result{}},
	})
	given := make(chan session.JournalEntry, 1)
	go func() {
		_, found, again, err := j.Ask(t.Context(), session.JournalEntry{Tool: "pay", Hash: "1"})
		if !again || err != nil {
			t.Errorf("again: %v, %v", again, err)
		}
		given <- found
	}()
	select {
	case e := <-given:
		t.Fatalf("%+v was given while an answer was left", e)
	default:
	}
	if _, found, _, err := j.Ask(t.Context(), session.JournalEntry{Tool: "order", Hash: "1"}); err != nil || found.Result == nil {
		t.Fatal(found, err)
	}
	if e := <-given; e.Approval != "apr_1" {
		t.Errorf("%+v", e)
	}
}

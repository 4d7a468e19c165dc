package run_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func TestAMultiRoundRequestWaitsInMemoryForTheAnswersOfItsRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fits := func(_ source.Question, answer json.RawMessage) bool { return string(answer) != `"bad"` }
		s := run.NewSuspension(run.Client{
			Answers: []string{source.MethodElicit}, Fits: fits,
			Offered: map[string]json.RawMessage{"early": json.RawMessage(`"yes"`), "approval": json.RawMessage(`"yes"`)},
		})
		if s.Job() != nil {
			t.Error("it has a job")
		}
		elicit := source.Question{Method: source.MethodElicit}
		if _, err := s.Ask(t.Context(), map[string]source.Question{"x": {Method: source.MethodSample}}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
			t.Errorf("a method that the client does not answer: %v", err)
		}
		var answers map[string]json.RawMessage
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			answers, err = s.Ask(t.Context(), map[string]source.Question{"early": elicit, "a": elicit, "b": elicit})
		}()
		<-s.Asked()
		if open, approval := s.OpenQuestions(); len(open) != 2 || approval != "" {
			t.Errorf("open: %v, approval %q", open, approval)
		}
		if _, err := s.Ask(t.Context(), map[string]source.Question{"a": elicit}); toolroom.CodeOf(err) != toolroom.CodeConflict {
			t.Errorf("a key that is open: %v", err)
		}
		s.Answer(map[string]json.RawMessage{"a": json.RawMessage(`1`), "b": json.RawMessage(`"bad"`), "c": json.RawMessage(`3`)})
		<-s.Asked() // b is to be asked again
		s.Answer(map[string]json.RawMessage{"b": json.RawMessage(`2`)})
		<-done
		if err != nil || string(answers["early"]) != `"yes"` || string(answers["a"]) != `1` || string(answers["b"]) != `2` {
			t.Errorf("got %s, %v", answers, err)
		}
		if open, _ := s.OpenQuestions(); len(open) != 0 {
			t.Errorf("still open: %v", open)
		}

		// An answer that was sent in advance approves nothing.
		ctx, cancel := context.WithCancel(t.Context())
		done = make(chan struct{})
		go func() {
			defer close(done)
			_, err = s.AskAbout(ctx, map[string]source.Question{"approval": elicit}, "apr_1")
		}()
		<-s.Asked()
		if open, approval := s.OpenQuestions(); len(open) != 1 || approval != "apr_1" {
			t.Errorf("open: %v, approval %q", open, approval)
		}
		cancel()
		<-done
		if open, _ := s.OpenQuestions(); err == nil || len(open) != 0 {
			t.Errorf("a call that was cancelled: %v, open %v", err, open)
		}
	})
}

package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/toolroom/toolroom/source"
)

// listener answers each question with its method, and counts the rounds.
type listener struct {
	source.NoAsker
	rounds []int
}

func (l *listener) Ask(_ context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	l.rounds = append(l.rounds, len(questions))
	answers := map[string]json.RawMessage{}
	for key, q := range questions {
		answers[key] = json.RawMessage(q.Method)
	}
	return answers, nil
}

func TestQuestionsOfOneMomentArePutInOneRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &listener{}
		c := &call{ctx: t.Context(), currentAsker: l}
		ask := func(methods ...string) {
			var all sync.WaitGroup
			for _, method := range methods {
				all.Go(func() {
					answer, err := c.gather(t.Context(), source.Question{Method: method})
					if err != nil || string(answer) != method {
						t.Errorf("%s was answered %s, %v", method, answer, err)
					}
				})
			}
			all.Wait()
		}
		ask(source.MethodElicit, source.MethodSample, source.MethodRoots)
		ask(source.MethodElicit)
		if len(l.rounds) != 2 || l.rounds[0] != 3 || l.rounds[1] != 1 {
			t.Errorf("the rounds had %v questions", l.rounds)
		}
	})
}

func TestAllMetadataGoesOnButWhatIsBetweenNeighbours(t *testing.T) {
	t.Parallel()
	got := ""
	for _, f := range forwardedMeta(json.RawMessage(`{"traceparent":"00-1","progressToken":1,"io.modelcontextprotocol/logLevel":"debug","toolroom/idempotencyKey":"k","ProgressToken":2,"io.modelcontextprotocol/x":1.50,"a\",\"b":1,"acme/x":[1]}`)) {
		got += f.Name + "=" + string(f.Value) + " "
	}
	if want := `traceparent="00-1" io.modelcontextprotocol/x=1.50 a","b=1 acme/x=[1] `; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

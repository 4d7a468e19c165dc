package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// patient is a caller that answers no question. A question ends if it is withdrawn, or with the
// call.
type patient struct {
	source.NoAsker
	asked chan struct{} // receives a value for each round
	ends  []string      // how the questions ended
}

func (p *patient) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	p.asked <- struct{}{}
	for _, q := range questions {
		select {
		case <-q.Withdrawn():
			time.Sleep(time.Second) // the caller hears of it late
			p.ends = append(p.ends, "withdrawn")
		case <-ctx.Done():
			time.Sleep(time.Second)
			p.ends = append(p.ends, "cancelled")
			return nil, ctx.Err()
		}
	}
	return nil, nil
}

// The caller must not get the result of a call while it believes that a question of it is open.
func TestACallEndsAfterItsQuestions(t *testing.T) {
	t.Parallel()
	for want, withdraw := range map[string]bool{"withdrawn": true, "cancelled": false} {
		synctest.Test(t, func(t *testing.T) {
			p := &patient{asked: make(chan struct{}, 2)}
			c := &call{ctx: t.Context(), currentAsker: p}
			until, end := context.WithCancel(t.Context())
			defer end()
			ask := func() { _, _ = c.gather(until, source.Question{Method: source.MethodElicit, Until: until}) }
			go ask()
			<-p.asked
			if withdraw {
				end()
			}
			go ask() // at the end of the call
			synctest.Wait()
			c.finish()
			if !slices.Equal(p.ends, []string{want}) {
				t.Errorf("the questions of a call that has ended: %v, want %s", p.ends, want)
			}
			time.Sleep(time.Minute)
			if len(p.asked) > 0 {
				t.Error("a call that has ended asks a question")
			}
		})
	}
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

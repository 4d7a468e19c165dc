package run_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// answerer answers each question after a while.
type answerer struct {
	source.NoAsker
	after  time.Duration
	answer string
}

func (a answerer) Can(method string) bool { return method == source.MethodElicit }

func (a answerer) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	select {
	case <-time.After(a.after):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	answers := map[string]json.RawMessage{}
	for key := range questions {
		answers[key] = json.RawMessage(a.answer)
	}
	return answers, nil
}

func asking(ctx context.Context, req *source.Request) (*source.Output, error) {
	a, err := source.Elicit(ctx, req.Ask, "name", "Who are you?", json.RawMessage(`{"type":"object"}`))
	if err != nil {
		return nil, err
	}
	return &source.Output{Value: a.Content}, nil
}

func TestAToolAsksAndTheTimeOfTheAnswerIsNotItsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("ask:it"), asking)
	b.add(tool("ask:through"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		r := b.Run(ctx, toolroom.Call{Tool: "ask:it"})
		return &source.Output{Value: r.Value}, r.Err()
	})
	ctx := run.WithClient(t.Context(), nil, answerer{after: 300 * time.Millisecond, answer: `{"action":"accept","content":{"name":"ada"}}`}, 0)
	for _, name := range []string{"ask:it", "ask:through"} {
		r := b.Run(ctx, toolroom.Call{Tool: name, Timeout: 100 * time.Millisecond})
		if r.Error != nil || string(r.Value) != `{"name":"ada"}` || r.Usage.Wait < 250*time.Millisecond {
			t.Errorf("%s gave %s, %v, after waiting %s", name, r.Value, r.Error, r.Usage.Wait)
		}
	}
}

func TestAToolThatCanAskStillTimesOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("slow:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		if _, err := asking(ctx, req); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	ctx := run.WithClient(t.Context(), nil, answerer{answer: `{"action":"cancel"}`}, 0)
	if r := b.Run(ctx, toolroom.Call{Tool: "slow:it", Timeout: 20 * time.Millisecond}); r.Status != toolroom.StatusTimeout {
		t.Errorf("got %s: %v", r.Status, r.Error)
	}
}

func TestACallerWhoLeavesWhileAQuestionIsOpenCancelsTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("ask:it"), asking)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(20*time.Millisecond, cancel)
	r := b.Run(run.WithClient(ctx, nil, answerer{after: time.Minute}, 0), toolroom.Call{Tool: "ask:it"})
	if r.Status != toolroom.StatusCancelled {
		t.Errorf("got %s: %v", r.Status, r.Error)
	}
}

func TestWhoCannotBeAskedIsToldWhatIsMissing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("ask:it"), asking)
	r := b.Run(t.Context(), toolroom.Call{Tool: "ask:it"})
	if toolroom.CodeOf(r.Err()) != toolroom.CodeUnsupported || r.Error.Missing == nil || r.Effects != toolroom.EffectsNone {
		t.Errorf("got %+v, effects %s", r.Error, r.Effects)
	}
}

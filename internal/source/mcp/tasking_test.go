package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// A server may ask while it answers with a task, although no revision has both. The race
// detector sees whether the question meets half an asker.
func TestAServerAsksWhileItsCallBecomesATask(t *testing.T) {
	t.Parallel()
	s := New(Config{Namespace: "both"})
	defer s.Close()
	c := &call{ctx: t.Context(), currentAsker: source.NoAsker{}, req: &source.Request{
		Task: func(context.Context, json.RawMessage) (source.Asker, error) { return &source.NoAsker{}, nil },
	}}
	var both sync.WaitGroup
	both.Go(func() {
		for range 100 {
			if err := c.reportTask(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
		}
	})
	both.Go(func() {
		for range 100 {
			if _, err := s.answerQuestion(t.Context(), nil, c, mcp.Question{Method: source.MethodElicit}); err == nil {
				t.Error("a client that answers nothing has answered")
			}
		}
	})
	both.Wait()
}

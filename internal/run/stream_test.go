package run_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// An event that a tool sends while its call ends may be on its way when the stream is over.
func TestAnEventThatIsOnItsWayWhenAStreamEndsIsDropped(t *testing.T) {
	t.Parallel()
	for range 20 {
		var log bytes.Buffer
		b := newBench(t, func(o *run.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		sending, over, sent := make(chan struct{}), make(chan struct{}), make(chan struct{})
		slow := b.Bus.Subscribe(func(e *toolroom.Event) bool {
			if e.Kind == toolroom.EventLog {
				close(sending)
				<-over
			}
			return false
		})
		b.add(tool("loud:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
			go func() {
				defer close(sent)
				req.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Message: "late"}})
			}()
			<-sending
			return &source.Output{}, nil
		})
		var kinds []toolroom.EventKind
		for e := range b.Stream(t.Context(), toolroom.Call{Tool: "loud:it"}) {
			kinds = append(kinds, e.Kind)
		}
		close(over)
		<-sent
		slow.Close()
		if len(kinds) != 2 || strings.Contains(log.String(), "panic") {
			t.Errorf("%v; logged %s", kinds, &log)
		}
	}
}

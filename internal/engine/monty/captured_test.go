package monty_test

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty"
)

func message(b []byte, field protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), body)
}

// captured is a worker that an attacker controls: it says that each program has
// ended, and goes on to call a tool. Monty's protocol has no tokens.
func captured() {
	event := func(kind protowire.Number, body []byte) []byte {
		frame := message(nil, kind, body)
		return append(binary.LittleEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	}
	nothing := message([]byte{1 << 3, 1}, 2, message(nil, 2, nil)) // values: None alone
	complete := event(6, message(nil, 2, nothing))
	call := event(2, message(append(message(nil, 1, []byte("call_tool")), 4<<3, 1), 7, nil))
	for {
		var head [4]byte
		if _, err := io.ReadFull(os.Stdin, head[:]); err != nil {
			return
		}
		frame := make([]byte, binary.LittleEndian.Uint32(head[:]))
		if _, err := io.ReadFull(os.Stdin, frame); err != nil {
			return
		}
		answer := event(10, nil)
		if kind, _, _ := protowire.ConsumeTag(frame); kind == 3 { // a feed
			answer = append(complete, call...)
		}
		if _, err := os.Stdout.Write(answer); err != nil {
			return
		}
	}
}

type deaf struct {
	silent
	asked *int
}

func (d deaf) Call(context.Context, string, bridge.Map) (bridge.Value, error) {
	*d.asked++
	return nil, nil
}

func TestACallOfACapturedWorkerAfterTheEndIsNotHeard(t *testing.T) {
	t.Parallel()
	e := monty.New(monty.Options{Find: os.Executable})
	t.Cleanup(func() { _ = e.Close() })
	asked := 0
	j := job("1", bridge.Limits{Wall: 20_000})
	if result, err := e.Run(t.Context(), j, deaf{asked: &asked}); err != nil || result.Outcome.Failure != nil {
		t.Fatalf("the first run: %+v, %v", result, err)
	}
	if result, err := e.Run(t.Context(), j, deaf{asked: &asked}); err == nil {
		t.Errorf("a run on the captured worker gave %v", result.Outcome.Value)
	}
	if asked > 0 {
		t.Errorf("the host answered %d calls", asked)
	}
	if result, err := e.Run(t.Context(), j, deaf{asked: &asked}); err != nil || result.Outcome.Failure != nil {
		t.Errorf("the run after it, which wants another worker: %+v, %v", result, err)
	}
}

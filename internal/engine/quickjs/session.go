package quickjs

import (
	"bytes"
	"context"
	"fmt"

	"github.com/toolroom/toolroom/bridge"
)

// runSession runs a program from the state of its session, and sends the state
// after the run with the last frame, because only then has the engine stopped.
func (s *server) runSession(ctx context.Context, isolate *Isolate, j job) error {
	if refused := s.machine.Resume(isolate, Name, j.state); refused != nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: refused})
	}
	var last *bridge.Frame
	send := func(f Frame) (bool, error) {
		kind := bridge.Kind(f.Kind)
		if kind != bridge.Done && kind != bridge.Failed {
			return s.send(j.token, f)
		}
		encoded, err := appendBody(nil, Frame{Body: bytes.Clone(f.Body), Text: f.Text})
		if err != nil {
			return true, err
		}
		body, err := bridge.DecodeValue(encoded)
		if err != nil {
			return true, fmt.Errorf("read the guest's last frame: %w", err)
		}
		fields, _ := body.(bridge.Map)
		last = &bridge.Frame{Kind: kind, Token: j.token, Body: fields}
		return true, nil
	}
	end, err := isolate.Run(ctx, j.port(send))
	if end != Finished || last == nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: describe(end, err)})
	}
	save := func() ([]byte, error) { return isolate.Save(ctx) }
	return s.machine.FinishSession(*last, save, s.wire.Write)
}

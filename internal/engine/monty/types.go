package monty

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

const (
	// maxChecked is how many programs the engine remembers as checked.
	maxChecked = 1024
	// checkTime limits a check, which also takes at most half of the program's time. A check
	// that takes longer is abandoned, because the tools validate their arguments in any case.
	checkTime = 5 * time.Second
	// checkMemory bounds the checker's heap.
	checkMemory = 256 << 20
)

// checkTypes runs Monty's type checker on a program that was not checked before, and returns
// why the program is refused, or nil. A check takes some 20 ms, so each program is checked
// once.
func (e *Engine) checkTypes(ctx context.Context, j engine.Job, p bridge.Program, session state, ready *program.Prepared) *bridge.Failure {
	if j.Declare == nil || session.Bound == nil {
		return nil
	}
	key := checkKey(p, ready)
	if e.checked.Contains(key) {
		return nil
	}
	types, ok := ready.CheckInput(j.Declare)
	if !ok {
		return nil
	}
	within, stop := context.WithTimeout(ctx, min(checkTime, time.Duration(p.Limits.Wall)*time.Millisecond/2))
	defer stop()
	w, err := e.checkers.Acquire(within, j.Owner)
	if err != nil {
		return nil
	}
	complaints, ok := w.typeErrors(within, types)
	e.checkers.Release(w, ok)
	if !ok { // another check would not be done in time either
		e.checked.Add(key, struct{}{})
		return nil
	}
	failure := ready.EvaluateCheck(complaints)
	if failure == nil {
		e.checked.Add(key, struct{}{})
	}
	return failure
}

// checkKey returns a digest of all that a check depends on: the program, its declared tools
// and the names of its session.
func checkKey(p bridge.Program, ready *program.Prepared) (key [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", ready.Source, ready.BoundNames())
	for _, t := range p.Tools {
		if strings.Contains(p.Source, t.Path[len(t.Path)-1]) {
			fmt.Fprint(h, t.ID, t.Kind, t.Globals, t.Parameters, t.Open)
		}
	}
	h.Sum(key[:0])
	return key
}

// typeErrors returns the type checker's output for a program. The program does not run,
// because its first line is always an error; ok is false if the worker failed.
func (s *montyWorker) typeErrors(ctx context.Context, types program.CheckInput) (text string, ok bool) {
	stop := context.AfterFunc(ctx, s.End)
	defer func() { ok = stop() && ok }()
	session := protocol.Session{Version: s.version, Memory: checkMemory, Stubs: types.Stubs}
	if s.conn.Send(protocol.Configure(session), protocol.Feed(types.Source, nil), protocol.Reset()) != nil {
		return "", false
	}
	for _, kind := range []protocol.Kind{protocol.Ok, protocol.TypingError, protocol.Ok} {
		e, err := s.conn.Receive()
		if err != nil || e.Kind != kind {
			return "", false
		}
		text += e.Message
	}
	return text, true
}

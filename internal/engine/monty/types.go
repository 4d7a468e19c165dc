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
	// maxPassed is how many checked programs are cached.
	maxPassed = 1024
	// checkTime is the most time that a check takes of the program's time, of which
	// it leaves half. A check that takes longer is abandoned, because the tools
	// validate their arguments in any case.
	checkTime = 5 * time.Second
	// checkMemory bounds the checker's heap.
	checkMemory = 256 << 20
)

// check runs Monty's type checker on a new program, and returns why the program is
// refused. A check takes some 20 ms, so each program is checked once.
func (e *Engine) check(ctx context.Context, j engine.Job, p bridge.Program, before state, ready *program.Ready) *bridge.Failure {
	if j.Declare == nil || before.Bound == nil {
		return nil
	}
	key := keyOf(p, ready)
	if e.passed.Contains(key) {
		return nil
	}
	types, ok := ready.Types(j.Declare)
	if !ok {
		return nil
	}
	within, stop := context.WithTimeout(ctx, min(checkTime, time.Duration(p.Limits.Wall)*time.Millisecond/2))
	defer stop()
	w, err := e.checks.Acquire(within, j.Owner)
	if err != nil {
		return nil
	}
	complaints, ok := w.complaints(within, types)
	e.checks.Release(w, ok)
	if !ok { // nor would it be done in time when it is run again
		e.passed.Add(key, struct{}{})
		return nil
	}
	failure := ready.Complaints(complaints)
	if failure == nil {
		e.passed.Add(key, struct{}{})
	}
	return failure
}

// keyOf returns a key of a program, its declared tools and the names of its session.
func keyOf(p bridge.Program, ready *program.Ready) (key [sha256.Size]byte) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q", ready.Source, ready.Bound())
	for _, t := range p.Tools {
		if strings.Contains(p.Source, t.Path[len(t.Path)-1]) {
			fmt.Fprint(h, t.ID, t.Kind, t.Globals, t.Parameters, t.Open)
		}
	}
	h.Sum(key[:0])
	return key
}

// complaints are those of the checker, ok false if the worker failed. The program
// does not run, since its first line is always complained of.
func (s *speaker) complaints(ctx context.Context, types program.Types) (text string, ok bool) {
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

package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

const (
	// answerWait is how long a call waits for the next round of its client.
	answerWait = 10 * time.Minute
	// maxRoundCalls is how many calls of one caller may wait at once.
	maxRoundCalls = 100
)

// A roundCall is a call of a client of 2026-07-28 that may ask. The protocol has no requests
// from the server there: a question ends the request, and the client makes it again with the
// answers. The call itself is not made again. It is suspended in memory between the rounds,
// so that the tool runs once and just waits, as it does for clients with sessions.
type roundCall struct {
	*run.Suspension
	id      string
	owner   string
	request []byte
	tasks   bool // the client takes a task for an answer
	ctx     context.Context
	end     context.CancelCauseFunc

	done   chan struct{}
	result *result
	err    error

	// task has the answer for the client once the call has become a task.
	task chan *result

	// live is the request that is being served, nil between the rounds.
	live atomic.Pointer[request]

	mu     sync.Mutex
	turn   int
	expiry *time.Timer
}

// roundCalls are the calls that wait for answers.
type roundCalls struct {
	sealer
	replica string // where they wait
	mu      sync.Mutex
	open    map[string]*roundCall
}

// work is what a request asks for. What happens meanwhile is told to the request
// that live gives, nil between two rounds.
type work func(ctx context.Context, a asker, live func() *request) (*result, error)

// asker is whom the work may ask. A question may stand for an approval.
type asker interface {
	source.Asker
	AskFor(ctx context.Context, questions map[string]source.Question, approval string) (map[string]json.RawMessage, error)
}

// converse serves a request whose work may ask. The work gets a context that
// outlives the request while it waits for answers.
func (s *Server) converse(x *request, work work) (*result, error) {
	self := func() *request { return x }
	if !x.takesRounds() { // an older client is asked in its session, and another that answers nothing is not
		return work(x.ctx, x, self)
	}
	if x.RequestState == "" {
		return s.rounds.serve(s.rounds.begin(x, work), x)
	}
	state, err := s.rounds.sealer.open(x.RequestState, identity.Owner(x.who), x.digest, time.Now())
	if err != nil {
		return nil, err
	}
	if d := s.rounds.find(state.Call); d != nil {
		if err := s.rounds.resume(d, x, state.Turn); err != nil {
			return nil, err
		}
		return s.rounds.serve(d, x)
	}
	if state.Approval == "" {
		return nil, badState("the call that asked waits no longer")
	}
	// The approval is in the store: the answer counts, and the call is made anew.
	if err := s.takeAnswer(x.ctx, x.who, state.Approval, x.answers[questionKey]); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return s.rounds.serve(s.rounds.begin(x, work), x)
}

func (ds *roundCalls) begin(x *request, work work) *roundCall {
	d := &roundCall{
		Suspension: run.NewSuspension(run.Client{
			Answers: slices.Sorted(maps.Keys(x.can.methods)), Capabilities: x.can.says, Offered: x.answers, Fits: fitsQuestion,
		}),
		id: strings.ToLower(rand.Text()), owner: identity.Owner(x.who), request: x.digest, tasks: x.can.tasks,
		done: make(chan struct{}), task: make(chan *result, 1),
	}
	d.ctx, d.end = context.WithCancelCause(context.WithoutCancel(x.ctx))
	d.live.Store(x)
	go func() {
		defer close(d.done)
		defer d.cancel()
		d.err = x.server.guard("a call", func() (err error) {
			d.result, err = work(d.ctx, d, d.live.Load)
			return err
		})
	}()
	return d
}

func (d *roundCall) cancel() { d.end(context.Canceled) }

func (ds *roundCalls) find(id string) *roundCall {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.open[id]
}

// serve waits for the end of the call or its next questions. A request that ends
// before ends the call.
func (ds *roundCalls) serve(d *roundCall, x *request) (*result, error) {
	d.live.Store(x)
	defer d.live.Store(nil)
	left := context.AfterFunc(x.ctx, func() { d.end(context.Cause(x.ctx)) })
	defer left()
	for {
		select {
		case <-d.done:
			ds.forget(d)
			return d.result, d.err
		case task := <-d.task: // the call goes on without its client
			ds.forget(d)
			return task, nil
		case <-d.Asked():
			result, err := ds.ask(d, x)
			if err != nil {
				d.cancel()
				ds.forget(d)
				return nil, err
			}
			if result != nil {
				return result, nil
			}
		}
	}
}

// ask puts the open questions to the client and lets the call wait. It gives
// nothing when no question is open any more.
func (ds *roundCalls) ask(d *roundCall, x *request) (*result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	open, approval := d.Open()
	if len(open) == 0 {
		return nil, nil
	}
	d.turn++
	state := requestState{
		Call: d.id, Turn: d.turn, Owner: d.owner, Request: d.request, Expires: time.Now().Add(answerWait),
		Replica: ds.replica, Approval: approval,
	}
	round := json.RawMessage("{}")
	for _, q := range open {
		if q.Round != nil {
			round = q.Round
		}
	}
	sealed, err := ds.seal(state)
	if err != nil {
		return nil, err
	}
	out, err := relayed(round)
	if err != nil {
		return nil, err
	}
	if err := ds.keep(d); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	d.expiry = time.AfterFunc(answerWait, func() { d.cancel(); ds.forget(d) })
	out.members.set("resultType", "input_required")
	out.members.set("inputRequests", asSent(open))
	out.members.set("requestState", sealed)
	return out, nil
}

// keep remembers a call that waits.
func (ds *roundCalls) keep(d *roundCall) error {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.open[d.id] != nil {
		return nil
	}
	waiting := 0
	for _, other := range ds.open {
		if other.owner == d.owner {
			waiting++
		}
	}
	if waiting >= maxRoundCalls {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%d calls are already waiting for answers", waiting).
			WithHint("answer some of them, or wait until they expire")
	}
	ds.open[d.id] = d
	return nil
}

func (ds *roundCalls) forget(d *roundCall) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.open, d.id)
}

// close ends the calls that wait.
func (ds *roundCalls) close() {
	ds.mu.Lock()
	waiting := slices.Collect(maps.Values(ds.open))
	clear(ds.open)
	ds.mu.Unlock()
	for _, d := range waiting {
		d.mu.Lock()
		d.expiry.Stop()
		d.mu.Unlock()
		d.cancel()
	}
}

// resume hands the answers of a new round to the call. What is still open then
// will be asked again.
func (ds *roundCalls) resume(d *roundCall, x *request, turn int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn != turn || d.live.Load() != nil {
		return badState("this round has been answered")
	}
	d.expiry.Stop()
	d.Answer(x.answers)
	// A repeat of this round is refused from now on.
	d.turn++
	return nil
}

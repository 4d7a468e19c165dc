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
	"github.com/toolroom/toolroom/internal/catalog"
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

// client is the client of one call: the call may ask it, and it hears how the call goes
// on. A [*request] is one that is asked in its session, or not at all; a [*roundCall] is
// one that answers with further requests.
type client interface {
	source.Asker
	// AskFor is Ask with the approval that the questions are about, empty for none.
	AskFor(ctx context.Context, questions map[string]source.Question, approval string) (map[string]json.RawMessage, error)
	// listening returns the request that waits for the call now, or nil for none.
	listening() *request
	// takesTasks reports whether the client takes a task for an answer.
	takesTasks() bool
	// comesBack reports whether the call may be answered after its request has ended: then
	// the end of the request does not mean that the call was given up.
	comesBack() bool
}

// work is what a request asks for. Its context outlives the request while it waits for
// answers.
type work func(ctx context.Context, c client) (*result, error)

// converse serves a request whose work may ask.
func (s *Server) converse(x *request, work work) (*result, error) {
	if !x.takesRounds() { // an older client is asked in its session, and another that answers nothing is not
		return work(x.ctx, x)
	}
	if x.RequestState == "" {
		return s.rounds.serve(begin(x, work), x)
	}
	state, err := s.rounds.sealer.open(x.RequestState, identity.Owner(x.who), x.digest(), time.Now())
	if err != nil {
		return nil, err
	}
	d, err := s.rounds.resume(state.Call, state.Turn)
	if err != nil {
		return nil, err
	}
	if d != nil {
		d.Answer(x.answers) // what is still open then will be asked again
		return s.rounds.serve(d, x)
	}
	if state.Approval == "" {
		return nil, badState("the call that asked waits no longer")
	}
	// The approval is in the store: the answer counts, and the call is made anew.
	if err := s.takeAnswer(x.ctx, x.who, state.Approval, x.answers[questionKey]); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return s.rounds.serve(begin(x, work), x)
}

// A roundCall is a call of a client of 2026-07-28 that may ask. The protocol has no requests
// from the server there: a question ends the request, and the client makes it again with the
// answers. The call itself is not made again. It is suspended in memory between the rounds,
// so that the tool runs once and just waits, as it does for clients with sessions.
type roundCall struct {
	*run.Suspension
	id      string
	owner   string
	request []byte // its digest
	tasks   bool   // the client takes a task for an answer
	end     context.CancelCauseFunc

	done   chan struct{} // closed when the call has ended, with result and err
	result *result
	err    error
	// task has the answer for the client once the call has become a task.
	task chan *result
	// served is the request that is being served, nil between the rounds.
	served atomic.Pointer[request]

	// guarded by the lock of roundCalls:
	turn   int         // the number of the last question, or of the answer to it
	expiry *time.Timer // ends the call if no answer comes
}

// begin begins a call. It runs until its work is done or its end is called.
func begin(x *request, work work) *roundCall {
	d := &roundCall{
		Suspension: run.NewSuspension(run.Client{
			Answers: slices.Sorted(maps.Keys(x.can.methods)), Capabilities: x.can.says, Offered: x.answers, Fits: fitsQuestion,
		}),
		id: strings.ToLower(rand.Text()), owner: identity.Owner(x.who), request: x.digest(), tasks: x.can.tasks,
		done: make(chan struct{}), task: make(chan *result, 1),
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(x.ctx))
	d.end = end
	d.served.Store(x)
	go func() {
		defer close(d.done)
		defer d.cancel()
		d.err = x.server.guard("a call", func() (err error) {
			d.result, err = work(ctx, d)
			return err
		})
	}()
	return d
}

func (d *roundCall) cancel() { d.end(context.Canceled) }

func (d *roundCall) listening() *request { return d.served.Load() }

func (d *roundCall) takesTasks() bool { return d.tasks }

func (d *roundCall) comesBack() bool { return true }

// performTask is perform for a client that may know tasks: if the server behind the tool
// answers with one, so does this one, and the call goes on as a job of the room.
func (s *Server) performTask(ctx context.Context, c client, call toolroom.Call, e *catalog.Entry) *toolroom.Result {
	d, ok := c.(*roundCall)
	if !ok || !d.tasks {
		return s.perform(ctx, c, call, e)
	}
	ctx = run.WithTasks(ctx, func(ctx context.Context, call toolroom.Call, state json.RawMessage) (source.Asker, error) {
		if err := s.o.Worker.StartTask(ctx, d.Suspension, call, state, d.end); err != nil {
			return nil, err
		}
		d.task <- created(d.Job())
		return d.Suspension, nil
	})
	result := s.perform(ctx, c, call, e)
	if d.Job() != nil {
		d.Finish(result)
	}
	return result
}

// roundCalls are the calls that have asked and not ended.
type roundCalls struct {
	sealer
	replica string // where they wait
	mu      sync.Mutex
	open    map[string]*roundCall
}

// serve waits for the end of the call or its next questions. A request that ends
// before ends the call.
func (ds *roundCalls) serve(d *roundCall, x *request) (*result, error) {
	d.served.Store(x)
	defer d.served.Store(nil)
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
			result, err := ds.ask(d)
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

// ask lets the call wait, and returns the answer that puts its open questions to the
// client. It returns nil if no question is open any more.
func (ds *roundCalls) ask(d *roundCall) (*result, error) {
	open, approval := d.Open()
	if len(open) == 0 {
		return nil, nil
	}
	round := json.RawMessage("{}")
	for _, q := range open {
		if q.Round != nil {
			round = q.Round
		}
	}
	out, err := relayed(round)
	if err != nil {
		return nil, err
	}
	turn, err := ds.wait(d)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	sealed, err := ds.seal(requestState{
		Call: d.id, Turn: turn, Owner: d.owner, Request: d.request, Expires: time.Now().Add(answerWait),
		Replica: ds.replica, Approval: approval,
	})
	if err != nil {
		return nil, err
	}
	out.members.set("resultType", "input_required")
	out.members.set("inputRequests", asSent(open))
	out.members.set("requestState", sealed)
	return out, nil
}

// wait lets a call wait for an answer, and returns the number of the question.
func (ds *roundCalls) wait(d *roundCall) (turn int, err error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if ds.open[d.id] == nil {
		waiting := 0
		for _, other := range ds.open {
			if other.owner == d.owner {
				waiting++
			}
		}
		if waiting >= maxRoundCalls {
			return 0, toolroom.Errorf(toolroom.CodeResourceLimit, "%d calls are already waiting for answers", waiting).
				WithHint("answer some of them, or wait until they expire")
		}
		ds.open[d.id] = d
	}
	d.turn++
	turn = d.turn
	d.expiry = time.AfterFunc(answerWait, func() { ds.expire(d, turn) })
	return turn, nil
}

// resume ends the wait of a call whose client has answered a question. It returns nil if
// there is no such call, and an error for a repeated answer.
func (ds *roundCalls) resume(id string, turn int) (*roundCall, error) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.open[id]
	if d == nil {
		return nil, nil
	}
	if d.turn != turn || d.listening() != nil {
		return nil, badState("this round has been answered")
	}
	d.expiry.Stop()
	d.turn++
	return d, nil
}

// expire ends a call whose client has not answered a question.
func (ds *roundCalls) expire(d *roundCall, turn int) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d.turn == turn {
		delete(ds.open, d.id)
		d.cancel()
	}
}

// forget forgets a call that waits no more.
func (ds *roundCalls) forget(d *roundCall) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d.expiry != nil {
		d.expiry.Stop()
	}
	delete(ds.open, d.id)
}

// close ends the calls that wait.
func (ds *roundCalls) close() {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	for _, d := range ds.open {
		d.expiry.Stop()
		d.cancel()
	}
	clear(ds.open)
}

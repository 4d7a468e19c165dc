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
	// answerWait limits the time for which a call waits for the client's next round.
	answerWait = 10 * time.Minute
	// maxRoundCalls limits the suspended calls of one caller.
	maxRoundCalls = 100
)

// client is the client of one call, which can be asked questions and receives notifications
// about the call. A [*request] asks the client in its session, if it has one. A [*roundCall]
// asks in responses, and the client answers in further requests.
type client interface {
	source.Asker
	// AskAbout is like Ask. approval is the id of the approval that the questions are about, or
	// empty.
	AskAbout(ctx context.Context, questions map[string]source.Question, approval string) (map[string]json.RawMessage, error)
	// currentRequest returns the request that is waiting for the call, or nil if there is none.
	currentRequest() *request
	// acceptsTasks reports whether the response to the call may be a task.
	acceptsTasks() bool
	// outlivesRequest reports whether the call may continue after its request has ended. Then
	// the end of the request does not mean that the client has given up the call.
	outlivesRequest() bool
}

// work carries out a request. Its context does not end with the request while the work waits
// for answers.
type work func(ctx context.Context, c client) (*result, error)

// serveRounds serves a request whose work may ask the client questions: it starts the work, or
// resumes the work to which the request brings answers, and returns its result or questions.
func (s *Server) serveRounds(x *request, work work) (*result, error) {
	if !x.supportsRounds() { // older clients are asked in their session; other modern ones cannot be asked
		return work(x.ctx, x)
	}
	if x.RequestState == "" {
		return s.rounds.await(startRoundCall(x, work, ""), x)
	}
	state, err := s.rounds.sealer.open(x.RequestState, identity.Owner(x.who), x.digest(), time.Now())
	if err != nil {
		return nil, err
	}
	rc, err := s.rounds.resume(state.Call, state.Turn, x)
	if err != nil {
		return nil, err
	}
	if rc != nil {
		rc.Answer(x.answers) // questions that are still open are asked again
		return s.rounds.await(rc, x)
	}
	if state.Approval == "" {
		return nil, invalidState("the call that asked waits no longer")
	}
	// The call is gone, but its approval is stored: record the answer, and start the call again.
	if err := s.recordAnswer(x.ctx, x.who, state.Approval, x.answers[approvalQuestionKey]); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return s.rounds.await(startRoundCall(x, work, state.Approval), x)
}

// roundCall is a call of a client of 2026-07-28 that may ask questions. That revision has no
// requests from server to client: a question ends the request, and the client repeats it with
// the answers. The call is not repeated. It is suspended in memory between the rounds, so that
// the tool runs once and waits for the answers, as it does for clients with sessions.
type roundCall struct {
	*run.Suspension
	id      string
	owner   string
	request []byte // its digest
	// approval is the approval for which the call starts again, or empty. If the server where it
	// began has used the approval in the meantime, the call has run there: it must not ask again.
	approval string
	tasks    bool // the response may be a task
	end      context.CancelCauseFunc

	done   chan struct{} // closed when the call has ended, with result and err
	result *result
	err    error
	// task receives the result for the client when the call becomes a task.
	task chan *result
	// current is the request that waits for the call; nil between the rounds.
	current atomic.Pointer[request]

	// guarded by the lock of roundCalls:
	turn   int         // the number of the last question, or of the answer to it
	expiry *time.Timer // ends the call if no answer comes
}

// startRoundCall starts a call, which runs until its work is done or end is called. approval is
// that of the call that it repeats, or empty.
func startRoundCall(x *request, work work, approval string) *roundCall {
	rc := &roundCall{
		Suspension: run.NewSuspension(run.Client{
			Answers: slices.Sorted(maps.Keys(x.can.methods)), Capabilities: x.can.raw, Offered: x.answers, Fits: fitsQuestion,
		}),
		id: strings.ToLower(rand.Text()), owner: identity.Owner(x.who), request: x.digest(), tasks: x.can.tasks, approval: approval,
		done: make(chan struct{}), task: make(chan *result, 1),
	}
	ctx, end := context.WithCancelCause(context.WithoutCancel(x.ctx))
	rc.end = end
	rc.current.Store(x)
	go func() {
		defer close(rc.done)
		defer rc.cancel()
		rc.err = x.server.recoverPanic("a call", func() (err error) {
			rc.result, err = work(ctx, rc)
			return err
		})
	}()
	return rc
}

func (rc *roundCall) cancel() { rc.end(context.Canceled) }

func (rc *roundCall) currentRequest() *request { return rc.current.Load() }

func (rc *roundCall) acceptsTasks() bool { return rc.tasks }

func (rc *roundCall) outlivesRequest() bool { return true }

// runWithTasks is like runWithApproval. In addition, if the MCP server of the tool answers
// with a task and the client supports tasks, the response is a task and the call continues as
// a job of the room.
func (s *Server) runWithTasks(ctx context.Context, c client, call toolroom.Call, e *catalog.Entry) *toolroom.Result {
	rc, ok := c.(*roundCall)
	if !ok || !rc.tasks {
		return s.runWithApproval(ctx, c, call, e)
	}
	ctx = run.WithTasks(ctx, func(ctx context.Context, call toolroom.Call, state json.RawMessage) (source.Asker, error) {
		if err := s.o.Worker.StartTask(ctx, rc.Suspension, call, state, rc.end); err != nil {
			return nil, err
		}
		rc.task <- taskCreated(rc.Job())
		return rc.Suspension, nil
	})
	result := s.runWithApproval(ctx, c, call, e)
	if rc.Job() != nil {
		rc.Finish(result)
	}
	return result
}

// roundCalls holds the calls that are suspended between two rounds.
type roundCalls struct {
	sealer
	replica string // the name of this server
	mu      sync.Mutex
	open    map[string]*roundCall
}

// await waits for the end of the call or its next questions, and returns the result for the
// client. x must be the current request of the call. If it ends first, await ends the call.
func (calls *roundCalls) await(rc *roundCall, x *request) (*result, error) {
	defer rc.current.Store(nil)
	left := context.AfterFunc(x.ctx, func() { rc.end(context.Cause(x.ctx)) })
	defer left()
	for {
		select {
		case <-rc.done:
			calls.forget(rc)
			return rc.result, rc.err
		case task := <-rc.task: // the call continues without the client
			calls.forget(rc)
			return task, nil
		case <-rc.Asked():
			result, err := calls.inputRequired(rc)
			if err != nil {
				rc.cancel()
				calls.forget(rc)
				return nil, err
			}
			if result != nil {
				return result, nil
			}
		}
	}
}

// inputRequired suspends the call and returns the result that asks the client its open
// questions. It returns nil if no question is open any more.
func (calls *roundCalls) inputRequired(rc *roundCall) (*result, error) {
	open, approval := rc.OpenQuestions()
	if len(open) == 0 {
		return nil, nil
	}
	round := json.RawMessage("{}")
	for _, q := range open {
		if q.Round != nil {
			round = q.Round
		}
	}
	out, err := parseResult(round)
	if err != nil {
		return nil, err
	}
	turn, err := calls.suspend(rc)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	sealed, err := calls.seal(requestState{
		Call: rc.id, Turn: turn, Owner: rc.owner, Request: rc.request, Expires: time.Now().Add(answerWait),
		Replica: calls.replica, Approval: approval,
	})
	if err != nil {
		return nil, err
	}
	out.members.set("resultType", "input_required")
	out.members.set("inputRequests", rawQuestions(open))
	out.members.set("requestState", sealed)
	return out, nil
}

// suspend adds a call to those that wait for answers, and returns the number of its round. It
// returns an error if the caller has too many.
func (calls *roundCalls) suspend(rc *roundCall) (turn int, err error) {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if calls.open[rc.id] == nil {
		waiting := 0
		for _, other := range calls.open {
			if other.owner == rc.owner {
				waiting++
			}
		}
		if waiting >= maxRoundCalls {
			return 0, toolroom.Errorf(toolroom.CodeResourceLimit, "%d calls are already waiting for answers", waiting).
				WithHint("answer some of them, or wait until they expire")
		}
		calls.open[rc.id] = rc
	}
	rc.turn++
	turn = rc.turn
	rc.expiry = time.AfterFunc(answerWait, func() { calls.expire(rc, turn) })
	return turn, nil
}

// resume returns a suspended call whose client has answered a round with the request x, which
// becomes its current request. It returns nil if there is no such call, and an error if the round
// has been answered already.
func (calls *roundCalls) resume(id string, turn int, x *request) (*roundCall, error) {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	rc := calls.open[id]
	if rc == nil {
		return nil, nil
	}
	if rc.turn != turn || rc.currentRequest() != nil {
		return nil, invalidState("this round has been answered")
	}
	rc.expiry.Stop()
	rc.turn++
	rc.current.Store(x) // before the answers, after which the call may notify its client at once
	return rc, nil
}

// expire ends a call whose client has not answered a round in time.
func (calls *roundCalls) expire(rc *roundCall, turn int) {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if rc.turn == turn {
		delete(calls.open, rc.id)
		rc.cancel()
	}
}

// forget removes a call that has ended.
func (calls *roundCalls) forget(rc *roundCall) {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	if rc.expiry != nil {
		rc.expiry.Stop()
	}
	delete(calls.open, rc.id)
}

// close ends all suspended calls.
func (calls *roundCalls) close() {
	calls.mu.Lock()
	defer calls.mu.Unlock()
	for _, rc := range calls.open {
		rc.expiry.Stop()
		rc.cancel()
	}
	clear(calls.open)
}

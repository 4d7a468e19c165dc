package mcpserver

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

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

const (
	// answerWait is how long a call waits for the next round of its client.
	answerWait = 10 * time.Minute
	// maxDialogues is how many calls of one caller may wait at once.
	maxDialogues = 100
)

// A dialogue is a call of a client of 2026-07-28 that may ask. The protocol has
// no requests from the server there: a question ends the request, and the client
// makes it again with the answers. The call itself is not made again. It waits
// here between the rounds, so that the tool runs once and just waits, as it does
// for clients with sessions.
type dialogue struct {
	id      string
	owner   string
	request []byte
	can     map[string]bool
	says    json.RawMessage // the client's capabilities
	tasks   bool            // the client takes a task for an answer
	// offered are answers that came with the first request already.
	offered map[string]json.RawMessage
	ctx     context.Context
	end     context.CancelCauseFunc
	// asked has a token when there is something to ask.
	asked chan struct{}

	done   chan struct{}
	result mcp.Result
	err    error

	// task has the answer for the client once the call has become a task.
	task chan mcp.Result

	// live is the request that is being served, nil between the rounds.
	live atomic.Pointer[exchange]

	mu      sync.Mutex
	turn    int
	pending map[string]*openQuestion
	expiry  *time.Timer
}

type openQuestion struct {
	source.Question
	answer chan json.RawMessage // takes one
	// approval is the durable question behind this one, if there is one.
	approval string
}

// dialogues are the calls that wait for answers.
type dialogues struct {
	sealer
	replica string // where they wait
	mu      sync.Mutex
	open    map[string]*dialogue
}

// work is what a request asks for. What happens meanwhile is told to the request
// that live gives, nil between two rounds.
type work func(ctx context.Context, a asker, live func() *exchange) (mcp.Result, error)

// asker is whom the work may ask. A question may stand for an approval.
type asker interface {
	source.Asker
	askFor(ctx context.Context, questions map[string]source.Question, approval string) (map[string]json.RawMessage, error)
}

// converse serves a request whose work may ask. The work gets a context that
// outlives the request while it waits for answers.
func (s *Server) converse(x *exchange, work work) (mcp.Result, error) {
	self := func() *exchange { return x }
	switch {
	case !x.modern():
		return work(run.WithAsker(x.ctx, x), x, self)
	case !x.takesRounds():
		return work(run.WithAsker(x.ctx, x), x, self) // it answers nothing, and so there is one round
	}
	if x.state == "" {
		return s.dialogues.serve(s.dialogues.begin(x, work), x)
	}
	state, err := s.dialogues.sealer.open(x.state, x.who.Key(), x.request, time.Now())
	if err != nil {
		return nil, err
	}
	if d := s.dialogues.find(state.Dialogue); d != nil {
		if err := s.dialogues.resume(d, x, state.Turn); err != nil {
			return nil, err
		}
		return s.dialogues.serve(d, x)
	}
	if state.Approval == "" {
		return nil, badState("the call that asked waits no longer")
	}
	// The approval is in the store: the answer counts, and the call is made anew.
	if err := s.takeAnswer(x.ctx, x.who, state.Approval, x.answers[questionKey]); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return s.dialogues.serve(s.dialogues.begin(x, work), x)
}

func (ds *dialogues) begin(x *exchange, work work) *dialogue {
	d := &dialogue{
		id: strings.ToLower(rand.Text()), owner: x.who.Key(), request: x.request, can: x.can, says: x.says, tasks: x.tasks, offered: x.answers,
		asked: make(chan struct{}, 1), done: make(chan struct{}), task: make(chan mcp.Result, 1), pending: map[string]*openQuestion{},
	}
	d.ctx, d.end = context.WithCancelCause(context.WithoutCancel(x.ctx))
	d.live.Store(x)
	go func() {
		defer close(d.done)
		defer d.cancel()
		d.result, d.err = work(run.WithAsker(d.ctx, d), d, d.live.Load)
	}()
	return d
}

func (d *dialogue) cancel() { d.end(context.Canceled) }

func (ds *dialogues) find(id string) *dialogue {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return ds.open[id]
}

// serve waits for the end of the call or its next questions. A request that ends
// before ends the call.
func (ds *dialogues) serve(d *dialogue, x *exchange) (mcp.Result, error) {
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
		case <-d.asked:
			result, err := ds.ask(d, x)
			if err != nil {
				d.cancel()
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
func (ds *dialogues) ask(d *dialogue, x *exchange) (mcp.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.pending) == 0 {
		return nil, nil
	}
	d.turn++
	state := requestState{
		Dialogue: d.id, Turn: d.turn, Owner: d.owner, Request: d.request, Expires: time.Now().Add(answerWait),
		Replica: ds.replica,
	}
	questions, round := map[string]any{}, json.RawMessage("{}")
	for key, q := range d.pending {
		questions[key] = q.Question
		if q.Sent != nil {
			questions[key] = q.Sent
		}
		if q.Round != nil {
			round = q.Round
		}
		if len(d.pending) == 1 {
			state.Approval = q.approval
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
	out.members.set("inputRequests", questions)
	out.members.set("requestState", sealed)
	return out, nil
}

// keep remembers a call that waits.
func (ds *dialogues) keep(d *dialogue) error {
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
	if waiting >= maxDialogues {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%d calls wait for answers already", waiting).
			WithHint("answer some of them, or wait until they expire")
	}
	ds.open[d.id] = d
	return nil
}

func (ds *dialogues) forget(d *dialogue) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	delete(ds.open, d.id)
}

// resume hands the answers of a new round to the call. What is still open then
// will be asked again.
func (ds *dialogues) resume(d *dialogue, x *exchange, turn int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.turn != turn || d.live.Load() != nil {
		return badState("this round has been answered")
	}
	d.expiry.Stop()
	for key, answer := range x.answers {
		if q := d.pending[key]; q != nil && fitsQuestion(q.Question, answer) {
			delete(d.pending, key)
			q.answer <- answer
		}
	}
	// A repeat of this round is refused from now on.
	d.turn++
	if len(d.pending) > 0 {
		d.signal()
	}
	return nil
}

func (d *dialogue) signal() {
	select {
	case d.asked <- struct{}{}:
	default:
	}
}

// Can reports whether the client answers questions of a method.
func (d *dialogue) Can(method string) bool { return d.can[method] }

// Capabilities are what the client says that it can do.
func (d *dialogue) Capabilities() json.RawMessage { return d.says }

// Ask opens the questions and waits for the rounds that answer them.
func (d *dialogue) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	return d.askFor(ctx, questions, "")
}

func (d *dialogue) askFor(ctx context.Context, questions map[string]source.Question, approval string) (map[string]json.RawMessage, error) {
	if err := answerable(d, questions); err != nil {
		return nil, err
	}
	opened := make(map[string]*openQuestion, len(questions))
	answers := make(map[string]json.RawMessage, len(questions))
	d.mu.Lock()
	for key, q := range questions {
		// Nobody approves what was never asked.
		if offered, ok := d.offered[key]; ok && approval == "" && fitsQuestion(q, offered) {
			answers[key] = offered
			delete(d.offered, key)
			continue
		}
		if d.pending[key] != nil {
			d.mu.Unlock()
			return nil, toolroom.Errorf(toolroom.CodeConflict, "a question with the key %q is open already", key)
		}
		opened[key] = &openQuestion{Question: q, answer: make(chan json.RawMessage, 1), approval: approval}
	}
	maps.Copy(d.pending, opened)
	d.mu.Unlock()
	if len(opened) > 0 {
		d.signal()
	}
	for _, key := range slices.Sorted(maps.Keys(opened)) {
		select {
		case answers[key] = <-opened[key].answer:
		case <-opened[key].Withdrawn():
			d.mu.Lock()
			delete(d.pending, key)
			d.mu.Unlock()
		case <-ctx.Done():
			d.mu.Lock()
			defer d.mu.Unlock()
			for key := range opened {
				delete(d.pending, key)
			}
			return nil, ctx.Err()
		}
	}
	return answers, nil
}

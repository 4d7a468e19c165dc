package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// Tasks (SEP-2663, io.modelcontextprotocol/tasks): a call may be answered with a
// task, whose result the client asks for later. A task is a job of the room, and
// survives what the job survives.
const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	// taskPoll is how often a client should ask, in milliseconds.
	taskPoll = 1000
	// askFirstWait is how long a call waits for the first question of a tool that
	// asks before it works.
	askFirstWait = 30 * time.Second
)

func missingTasks() error {
	e := toolroom.Errorf(toolroom.CodeUnsupported, "the client does not support tasks (%s)", tasksExtension)
	e.Missing = map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}
	return rpcError(e)
}

// submit makes a call a task. The tool's first questions come before that when
// it asks first; then the client repeats its request with the answers.
func (s *Server) submit(x *request, e *catalog.Entry, call toolroom.Call) (*result, error) {
	if x.RequestState != "" {
		return s.submitted(x)
	}
	call.Timeout = e.Tool.Timeout
	if call.Timeout == 0 {
		call.Timeout = s.o.Runner.Limits().MaxTimeout
	}
	var answers []string
	for method := range x.can.methods {
		answers = append(answers, method)
	}
	job, err := s.o.Runner.SubmitAsking(x.ctx, call, answers)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	s.o.Worker.Wake()
	if e.Tool.AsksFirst {
		return s.askFirst(x, job)
	}
	return created(job), nil
}

// submitted takes the answers to what a task asked before it was one.
func (s *Server) submitted(x *request) (*result, error) {
	state, err := s.rounds.sealer.open(x.RequestState, identity.Owner(x.who), x.digest(), time.Now())
	if err != nil {
		return nil, err
	}
	job, err := s.jobOf(x.ctx, x.who, state.Call)
	if err != nil {
		return nil, badState("the call that asked waits no longer")
	}
	if err := s.answerTask(x.ctx, x.who, job, x.answers); err != nil {
		return nil, err
	}
	open, err := s.openQuestions(x.ctx, job, x.Can(source.MethodElicit))
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		return s.askAgain(x, job, open, state.Turn+1)
	}
	return created(job), nil
}

func (s *Server) askFirst(x *request, job *run.Job) (*result, error) {
	ctx, cancel := context.WithTimeout(x.ctx, askFirstWait)
	defer cancel()
	// A tool that asks nothing after all is a task like any other.
	if err := s.o.Worker.AwaitQuestion(ctx, job.ID); err != nil && ctx.Err() == nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	open, err := s.openQuestions(x.ctx, job, x.Can(source.MethodElicit))
	if err != nil {
		return nil, err
	}
	if len(open) == 0 {
		return created(job), nil
	}
	return s.askAgain(x, job, open, 1)
}

func (s *Server) askAgain(x *request, job *run.Job, open map[string]source.Question, turn int) (*result, error) {
	sealed, err := s.rounds.seal(requestState{
		Call: job.ID, Turn: turn, Owner: identity.Owner(x.who), Request: x.digest(), Expires: time.Now().Add(answerWait),
	})
	if err != nil {
		return nil, err
	}
	return &result{members: members(map[string]any{
		"resultType": "input_required", "inputRequests": asSent(open), "requestState": sealed,
	})}, nil
}

// created is the answer to a call that is a task now.
func created(job *run.Job) *result {
	out := shownTask(job, "working", job.Created)
	out.members.set("resultType", "task")
	return out
}

// shownTask is a task as its client sees it: ours in its id, its state and its
// times, and with what else the server behind it says of its own.
func shownTask(job *run.Job, status string, updated time.Time) *result {
	out := &result{}
	if job.Resume != nil {
		if theirs, err := relayed(job.Resume); err == nil {
			out = theirs
		}
	}
	for name, value := range taskMembers(job, status, updated) {
		out.members.set(name, value)
	}
	for _, name := range []string{"resultType", "result", "error", "inputRequests"} {
		out.members.drop(name)
	}
	return out
}

func taskMembers(job *run.Job, status string, updated time.Time) map[string]any {
	return map[string]any{
		"taskId": job.ID, "status": status, "createdAt": job.Created.UTC().Format(time.RFC3339Nano),
		"lastUpdatedAt": updated.UTC().Format(time.RFC3339Nano),
		// Jobs are kept.
		"ttlMs": nil, "pollIntervalMs": taskPoll,
	}
}

// waits returns the job of a program that waits for a person, if the client takes a task for
// it; else it returns nil.
func (s *Server) waits(ctx context.Context, x *request, r *toolroom.Result) (*run.Job, error) {
	if !x.can.tasks || toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired || r.Error.Run == "" {
		return nil, nil
	}
	return s.jobOf(ctx, x.who, r.Error.Run)
}

// taskOf is the task that a request names. It is for its owner alone.
func (s *Server) taskOf(r *request) (*run.Job, error) {
	if !r.Modern() || s.o.Worker == nil {
		return nil, mcp.MethodNotFound(r.Method)
	}
	if !r.can.tasks {
		return nil, missingTasks()
	}
	return s.jobOf(r.ctx, r.who, r.Name)
}

func (s *Server) getTask(r *request) (*result, error) {
	job, err := s.taskOf(r)
	if err != nil {
		return nil, err
	}
	return s.taskNow(r.ctx, job, r.Can(source.MethodElicit), r.Version)
}

func (s *Server) updateTask(r *request) (*result, error) {
	job, err := s.taskOf(r)
	if err == nil {
		err = s.answerTask(r.ctx, r.who, job, r.answers)
	}
	if err != nil {
		return nil, err
	}
	return &result{}, nil
}

func (s *Server) cancelTask(r *request) (*result, error) {
	job, err := s.taskOf(r)
	if err != nil {
		return nil, err
	}
	if err := s.o.Worker.End(r.ctx, job.ID); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return &result{}, nil
}

// jobOf is a task of its owner. What belongs to others is not there.
func (s *Server) jobOf(ctx context.Context, who toolroom.Identity, id string) (*run.Job, error) {
	job, err := s.o.Runner.Jobs.Job(ctx, id)
	if err == nil && identity.Reaches(who, job.Identity) {
		return job, nil
	}
	if err != nil && toolroom.CodeOf(err) != toolroom.CodeNotFound {
		return nil, rpcError(toolroom.AsError(err))
	}
	return nil, invalidParams("there is no task " + id)
}

func (s *Server) taskNow(ctx context.Context, job *run.Job, elicits bool, version string) (*result, error) {
	if job.State != toolroom.JobDone {
		open, err := s.openQuestions(ctx, job, elicits)
		if err != nil {
			return nil, err
		}
		status := "working"
		if len(open) > 0 {
			status = "input_required"
		}
		out := shownTask(job, status, job.Created)
		if len(open) > 0 {
			out.members.set("inputRequests", asSent(open))
		}
		return out.of(version), nil
	}
	if job.Result.Status == toolroom.StatusCancelled {
		out := shownTask(job, "cancelled", job.Finished)
		return out.of(version), nil
	}
	if err := s.taintReader(ctx, job); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	var told *schema.Schema
	if e, err := s.o.Runner.Find(ctx, &job.Call); err == nil {
		told = s.told(e)
	}
	done, err := answer(job.Result, version, told)
	if failed := (*mcp.Error)(nil); errors.As(err, &failed) {
		out := shownTask(job, "failed", job.Finished)
		out.members.set("error", failed)
		if failed.Sent != nil {
			out.members.set("error", failed.Sent)
		}
		out.members.set("statusMessage", failed.Message)
		return out.of(version), nil
	}
	out := shownTask(job, "completed", job.Finished)
	out.members.set("result", done)
	return out.of(version), nil
}

// openQuestions are what a task waits for: what its tool asks, and the approval
// of the call itself where the client can ask its user.
func (s *Server) openQuestions(ctx context.Context, job *run.Job, elicits bool) (map[string]source.Question, error) {
	stored, err := s.o.Worker.Questions(ctx, job.ID)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	open := map[string]source.Question{}
	for _, q := range stored {
		if len(q.Answer) == 0 {
			open[q.Key] = q.Question
		}
	}
	if asked, err := s.approvalOf(ctx, job); err != nil {
		return nil, err
	} else if asked != nil && elicits && approval.CallerAnswers(asked.ApprovalTerms, job.Identity) {
		if open[approvalKey(asked)], err = approvalQuestion(asked); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// asSent are questions as the server behind sent them, where one did.
func asSent(open map[string]source.Question) map[string]any {
	questions := make(map[string]any, len(open))
	for key, q := range open {
		questions[key] = q
		if q.Sent != nil {
			questions[key] = q.Sent
		}
	}
	return questions
}

// approvalOf is an open approval of a task's call, or of a call that its program
// makes; nil when there is none.
func (s *Server) approvalOf(ctx context.Context, job *run.Job) (*toolroom.Approval, error) {
	if s.o.Approvals == nil {
		return nil, nil
	}
	pending, err := s.o.Approvals.List(ctx, toolroom.ApprovalPending)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	for _, a := range pending {
		if (a.Call == job.Call.ID || slices.Contains(job.Approvals, a.ID)) && a.Identity.Key() == job.Identity.Key() {
			return a, nil
		}
	}
	return nil, nil
}

// approvalKey names one approval: keys are unique in the life of a task.
func approvalKey(a *toolroom.Approval) string { return questionKey + "-" + a.ID }

// answerTask hands answers to a task. Those to nothing that is open, and those
// that do not fit, are left out: what is open stays open.
func (s *Server) answerTask(ctx context.Context, who toolroom.Identity, job *run.Job, answers map[string]json.RawMessage) error {
	open, err := s.openQuestions(ctx, job, true)
	if err != nil {
		return err
	}
	asked, err := s.approvalOf(ctx, job)
	if err != nil {
		return err
	}
	fit := map[string]json.RawMessage{}
	for key, answer := range answers {
		q, ok := open[key]
		if !ok || !fitsQuestion(q, answer) {
			continue
		}
		if asked != nil && key == approvalKey(asked) {
			if err := s.takeAnswer(ctx, who, asked.ID, answer); err != nil {
				return rpcError(toolroom.AsError(err))
			}
			continue
		}
		fit[key] = answer
	}
	if len(fit) == 0 {
		return nil
	}
	if err := s.o.Worker.Answer(ctx, job.ID, fit); err != nil {
		return rpcError(toolroom.AsError(err))
	}
	return nil
}

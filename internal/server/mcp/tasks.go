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

// tasksExtension is the extension for tasks (SEP-2663): the response to a call may be a task,
// whose result the client requests later. A task is a job of the room.
const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	// taskPoll is the interval, in milliseconds, at which a client should poll a task.
	taskPoll = 1000
	// askFirstWait limits the time for which a call waits for the questions of a tool that
	// asks before it starts its work.
	askFirstWait = 30 * time.Second
)

func tasksUnsupported() error {
	e := toolroom.Errorf(toolroom.CodeUnsupported, "the client does not support tasks (%s)", tasksExtension)
	e.Missing = map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}
	return rpcError(e)
}

// submitTask submits a call as a job and returns a task. If the tool asks questions before it
// starts its work, submitTask returns those instead, and the client repeats its request with
// the answers.
func (s *Server) submitTask(x *request, e *catalog.Entry, call toolroom.Call) (*result, error) {
	if x.RequestState != "" {
		return s.resumeSubmit(x)
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
		return s.awaitFirstQuestions(x, job)
	}
	return taskCreated(job), nil
}

// resumeSubmit passes on the answers to the questions that submitTask returned. It returns the
// task, or the questions that are still open.
func (s *Server) resumeSubmit(x *request) (*result, error) {
	state, err := s.rounds.sealer.open(x.RequestState, identity.Owner(x.who), x.digest(), time.Now())
	if err != nil {
		return nil, err
	}
	job, err := s.ownedJob(x.ctx, x.who, state.Call)
	if err != nil {
		return nil, invalidState("the call that asked waits no longer")
	}
	if err := s.answerTask(x.ctx, x.who, job, x.answers); err != nil {
		return nil, err
	}
	open, err := s.openQuestions(x.ctx, job, x.Can(source.MethodElicit))
	if err != nil {
		return nil, err
	}
	if len(open) > 0 {
		return s.taskInputRequired(x, job, open, state.Turn+1)
	}
	return taskCreated(job), nil
}

func (s *Server) awaitFirstQuestions(x *request, job *run.Job) (*result, error) {
	ctx, cancel := context.WithTimeout(x.ctx, askFirstWait)
	defer cancel()
	// If the tool asks nothing in time, the response is the task.
	if err := s.o.Worker.AwaitQuestion(ctx, job.ID); err != nil && ctx.Err() == nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	open, err := s.openQuestions(x.ctx, job, x.Can(source.MethodElicit))
	if err != nil {
		return nil, err
	}
	if len(open) == 0 {
		return taskCreated(job), nil
	}
	return s.taskInputRequired(x, job, open, 1)
}

func (s *Server) taskInputRequired(x *request, job *run.Job, open map[string]source.Question, turn int) (*result, error) {
	sealed, err := s.rounds.seal(requestState{
		Call: job.ID, Turn: turn, Owner: identity.Owner(x.who), Request: x.digest(), Expires: time.Now().Add(answerWait),
	})
	if err != nil {
		return nil, err
	}
	return &result{members: newObject(map[string]any{
		"resultType": "input_required", "inputRequests": rawQuestions(open), "requestState": sealed,
	})}, nil
}

// taskCreated returns the response to a call that has become a task.
func taskCreated(job *run.Job) *result {
	out := taskResult(job, "working", job.Created)
	out.members.set("resultType", "task")
	return out
}

// taskResult returns a task for its client. Id, status and times are those of the job; other
// members come from the task of the MCP server of the tool, if there is one.
func taskResult(job *run.Job, status string, updated time.Time) *result {
	out := &result{}
	if job.Resume != nil {
		if theirs, err := parseResult(job.Resume); err == nil {
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
		// Jobs do not expire.
		"ttlMs": nil, "pollIntervalMs": taskPoll,
	}
}

// suspendedJob returns the job of a program that waits for a person, if the client supports
// tasks. Otherwise it returns nil.
func (s *Server) suspendedJob(ctx context.Context, x *request, r *toolroom.Result) (*run.Job, error) {
	if !x.can.tasks || toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired || r.Error.Run == "" {
		return nil, nil
	}
	return s.ownedJob(ctx, x.who, r.Error.Run)
}

// requestedTask returns the task that a request names, if it belongs to the caller.
func (s *Server) requestedTask(r *request) (*run.Job, error) {
	if !r.Modern() || s.o.Worker == nil {
		return nil, mcp.MethodNotFound(r.Method)
	}
	if !r.can.tasks {
		return nil, tasksUnsupported()
	}
	return s.ownedJob(r.ctx, r.who, r.Name)
}

func (s *Server) getTask(r *request) (*result, error) {
	job, err := s.requestedTask(r)
	if err != nil {
		return nil, err
	}
	return s.taskState(r.ctx, job, r.Can(source.MethodElicit), r.Version)
}

func (s *Server) updateTask(r *request) (*result, error) {
	job, err := s.requestedTask(r)
	if err == nil {
		err = s.answerTask(r.ctx, r.who, job, r.answers)
	}
	if err != nil {
		return nil, err
	}
	return &result{}, nil
}

func (s *Server) cancelTask(r *request) (*result, error) {
	job, err := s.requestedTask(r)
	if err != nil {
		return nil, err
	}
	if err := s.o.Worker.CancelJob(r.ctx, job.ID); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	return &result{}, nil
}

// ownedJob returns a job of the caller. Those of other callers are reported as not found.
func (s *Server) ownedJob(ctx context.Context, who toolroom.Identity, id string) (*run.Job, error) {
	job, err := s.o.Runner.Jobs.Job(ctx, id)
	if err == nil && identity.Reaches(who, job.Identity) {
		return job, nil
	}
	if err != nil && toolroom.CodeOf(err) != toolroom.CodeNotFound {
		return nil, rpcError(toolroom.AsError(err))
	}
	return nil, invalidParams("there is no task " + id)
}

func (s *Server) taskState(ctx context.Context, job *run.Job, elicits bool, version string) (*result, error) {
	if job.State != toolroom.JobDone {
		open, err := s.openQuestions(ctx, job, elicits)
		if err != nil {
			return nil, err
		}
		status := "working"
		if len(open) > 0 {
			status = "input_required"
		}
		out := taskResult(job, status, job.Created)
		if len(open) > 0 {
			out.members.set("inputRequests", rawQuestions(open))
		}
		return out.forVersion(version), nil
	}
	if job.Result.Status == toolroom.StatusCancelled {
		out := taskResult(job, "cancelled", job.Finished)
		return out.forVersion(version), nil
	}
	if err := s.taintSession(ctx, job); err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	var listed *schema.Schema
	if e, err := s.o.Runner.Find(ctx, &job.Call); err == nil {
		listed = s.listedSchema(e)
	}
	done, err := convertResult(job.Result, version, listed)
	if failed := (*mcp.Error)(nil); errors.As(err, &failed) {
		out := taskResult(job, "failed", job.Finished)
		out.members.set("error", failed)
		if failed.Sent != nil {
			out.members.set("error", failed.Sent)
		}
		out.members.set("statusMessage", failed.Message)
		return out.forVersion(version), nil
	}
	out := taskResult(job, "completed", job.Finished)
	out.members.set("result", done)
	return out.forVersion(version), nil
}

// openQuestions returns the questions for which a task waits: those of its tool, and that of an
// approval if the client's user may answer it.
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
	if asked, err := s.openApproval(ctx, job); err != nil {
		return nil, err
	} else if asked != nil && elicits && approval.CallerMayAnswer(asked.ApprovalTerms, job.Identity) {
		if open[approvalKey(asked)], err = approvalQuestion(asked); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// rawQuestions returns questions for the client, unchanged if an MCP server sent them.
func rawQuestions(open map[string]source.Question) map[string]any {
	questions := make(map[string]any, len(open))
	for key, q := range open {
		questions[key] = q
		if q.Sent != nil {
			questions[key] = q.Sent
		}
	}
	return questions
}

// openApproval returns a pending approval of a task's call, or of a call that its program has
// made. It returns nil if there is none.
func (s *Server) openApproval(ctx context.Context, job *run.Job) (*toolroom.Approval, error) {
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

// approvalKey returns the key of an approval question. The keys of a task's questions are
// unique.
func approvalKey(a *toolroom.Approval) string { return approvalQuestionKey + "-" + a.ID }

// answerTask passes answers to a task. It ignores answers to questions that are not open, and
// those that do not fit, so that these questions stay open.
func (s *Server) answerTask(ctx context.Context, who toolroom.Identity, job *run.Job, answers map[string]json.RawMessage) error {
	open, err := s.openQuestions(ctx, job, true)
	if err != nil {
		return err
	}
	asked, err := s.openApproval(ctx, job)
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
			if err := s.recordAnswer(ctx, who, asked.ID, answer); err != nil {
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

package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/visible"
	"github.com/toolroom/toolroom/source"
)

// approvalQuestionKey is the key of the question that asks a person to approve a call.
const approvalQuestionKey = "approval"

// runWithApproval runs a call. If a person must approve it and the client can ask one,
// runWithApproval asks through the client, and also accepts an answer that is given
// elsewhere in the meantime. e is the tool, or nil if it is unknown.
func (s *Server) runWithApproval(ctx context.Context, c client, call toolroom.Call, e *catalog.Entry) *toolroom.Result {
	sink, stop := s.callNotifier(c)
	defer stop()
	var wait time.Duration
	if s.o.ApprovalWait != nil {
		wait = s.o.ApprovalWait()
	}
	ctx = run.WithClient(ctx, sink, c, wait)
	asks := s.canAskCaller(c, call, e)
	call.NoWait = asks || answersWithTask(c, e)
	if rc, ok := c.(*roundCall); ok {
		call.Approval = rc.approval
	}
	for {
		result := s.withPage(s.o.Runner.Run(ctx, call))
		if !call.NoWait || toolroom.CodeOf(result.Err()) != toolroom.CodeApprovalRequired {
			return result
		}
		id, run := result.Error.Approval, result.Error.Run
		if run != "" && asks && s.o.Worker != nil {
			return s.continueProgram(ctx, c, call.Identity, run, id, result)
		} else if run != "" {
			return result // the program continues elsewhere
		}
		if err := s.askPerson(ctx, c, call.Identity, id); err != nil {
			return withError(result, err)
		}
		// A client is asked once. If others must approve as well, the call waits for them.
		call.Approval, call.NoWait = id, false
	}
}

// withPage adds the address of the page to the hint of a call that waits for a person.
func (s *Server) withPage(r *toolroom.Result) *toolroom.Result {
	if s.o.Page == "" || r.Error == nil || r.Error.Code != toolroom.CodeApprovalRequired || r.Error.Approval == "" {
		return r
	}
	named, failed := *r, *r.Error
	failed.Hint = strings.Replace(failed.Hint, "toolroom approve "+failed.Approval, "toolroom approve "+failed.Approval+", or on the page "+s.o.Page, 1)
	named.Error = &failed
	return &named
}

// continueProgram asks the client the questions of a suspended program that its user may
// answer, and resumes the program after each, until it has ended.
func (s *Server) continueProgram(ctx context.Context, c client, who toolroom.Identity, run, id string, result *toolroom.Result) *toolroom.Result {
	for {
		asked, err := s.o.Approvals.Get(ctx, id)
		if err == nil && approval.CallerMayAnswer(asked.ApprovalTerms, who) {
			err = s.askPerson(ctx, c, who, id)
		}
		if err != nil {
			return withError(result, err)
		}
		next, done, err := s.o.Worker.ResumeOnce(ctx, run)
		if err != nil {
			return withError(result, err)
		}
		if done || toolroom.CodeOf(next.Err()) != toolroom.CodeApprovalRequired {
			return next // it has ended, even if its result could not be stored
		}
		result = next
		id = result.Error.Approval
	}
}

// canAskCaller reports whether the user of the client that makes a call may approve it,
// and the client can ask that user.
func (s *Server) canAskCaller(c client, call toolroom.Call, e *catalog.Entry) bool {
	if s.o.Approvals == nil || !c.Can(source.MethodElicit) {
		return false
	}
	tool := call.Tool
	if e != nil {
		tool = e.ID
	}
	return approval.CallerMayAnswer(s.o.Approvals.Terms(tool), call.Identity)
}

// answersWithTask reports whether a call that waits for a person returns a task to its
// client at once. Programs do, because they can continue without the request.
func answersWithTask(c client, e *catalog.Entry) bool {
	return c.acceptsTasks() && e != nil && e.ID == code.Tool
}

// withError returns a copy of r that failed with err, because nobody could be asked for
// the approval.
func withError(r *toolroom.Result, err error) *toolroom.Result {
	failed := *r
	failed.Error = toolroom.AsError(err)
	failed.Status = failed.Error.Code.Info().Status
	return &failed
}

// askPerson asks the client's user to decide an approval, and returns when it is decided,
// in the client or elsewhere.
func (s *Server) askPerson(ctx context.Context, c client, who toolroom.Identity, id string) error {
	asked, err := s.o.Approvals.Get(ctx, id)
	if err != nil {
		return err
	}
	question, err := approvalQuestion(asked)
	if err != nil {
		return err
	}
	caller := ctx
	ctx, cancel := context.WithCancel(caller)
	defer cancel()
	decided := make(chan struct{})
	go func() {
		defer close(decided)
		defer cancel()
		// The call itself reads the decision.
		_, _ = s.o.Approvals.Wait(ctx, id)
	}()
	answers, err := c.AskAbout(ctx, map[string]source.Question{approvalQuestionKey: question}, id)
	switch {
	case err == nil:
		err = s.recordAnswer(context.WithoutCancel(ctx), who, id, answers[approvalQuestionKey])
	case ctx.Err() != nil:
		err = nil // decided elsewhere, or the caller has left
	}
	cancel()
	<-decided
	if caller.Err() != nil && !c.outlivesRequest() {
		err = s.o.Approvals.Abandon(context.WithoutCancel(caller), id)
	}
	return err
}

func approvalQuestion(asked *toolroom.Approval) (source.Question, error) {
	args, err := json.MarshalIndent(asked.Arguments, "", "  ")
	if err != nil {
		args = asked.Arguments
	}
	params, err := json.Marshal(map[string]any{
		"mode":            "form",
		"message":         questionText(asked, args),
		"requestedSchema": json.RawMessage(`{"type":"object","properties":{"approve":{"type":"boolean","title":"Allow this call once","default":false}},"required":["approve"]}`),
	})
	return source.Question{Method: source.MethodElicit, Params: params}, err
}

func questionText(asked *toolroom.Approval, args []byte) string {
	var text strings.Builder
	where := ""
	if asked.Environment != "" {
		where = " in the environment " + asked.Environment
	}
	fmt.Fprintf(&text, "Allow this call of %s%s?\n%s\n", asked.Tool, where, args)
	for _, effect := range asked.Effects {
		fmt.Fprintf(&text, "It %s.\n", effect)
	}
	text.WriteString(asked.Diff)
	fmt.Fprintf(&text, "Asked because of %s.", asked.Reason)
	return visible.Text(text.String())
}

// recordAnswer records a client's answer to an approval question.
func (s *Server) recordAnswer(ctx context.Context, who toolroom.Identity, id string, raw json.RawMessage) error {
	var answer struct {
		Action  string `json:"action"`
		Content struct {
			Approve bool `json:"approve"`
		} `json:"content"`
	}
	if err := jsonx.Unmarshal(raw, &answer, jsonx.Limits{Bytes: maxBody}); err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid answer to approval %s: %w", id, err)
	}
	asked, err := s.o.Approvals.Get(ctx, id)
	if err != nil {
		return err
	}
	if !identity.Reaches(who, asked.Identity) {
		return toolroom.Errorf(toolroom.CodeNotFound, "approval %s not found", id)
	}
	if asked.State != toolroom.ApprovalPending {
		return nil // answered elsewhere in the meantime; the call reads the decision
	}
	_, err = s.o.Approvals.Answer(ctx, id, toolroom.Answer{
		Approve: answer.Action == "accept" && answer.Content.Approve,
		By:      who.Key(),
		Comment: "answered in the MCP client: " + answer.Action,
		Who:     who, Elicited: true,
	})
	return err
}

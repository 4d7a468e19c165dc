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

// questionKey is the key of the question whether a call is allowed.
const questionKey = "approval"

// perform runs a call. When a person must approve and the client can ask one, it
// does; an answer that is given elsewhere meanwhile counts as well.
// e is the tool, or nil if it is not known.
func (s *Server) perform(ctx context.Context, c client, call toolroom.Call, e *catalog.Entry) *toolroom.Result {
	sink, stop := s.notifications(c)
	defer stop()
	var wait time.Duration
	if s.o.ApprovalWait != nil {
		wait = s.o.ApprovalWait()
	}
	ctx = run.WithClient(ctx, sink, c, wait)
	asks := s.asksCaller(c, call, e)
	call.NoWait = asks || takesTask(c, e)
	for {
		result := s.withPage(s.o.Runner.Run(ctx, call))
		if !call.NoWait || toolroom.CodeOf(result.Err()) != toolroom.CodeApprovalRequired {
			return result
		}
		id, run := result.Error.Approval, result.Error.Run
		if run != "" && asks && s.o.Worker != nil {
			return s.goOn(ctx, c, call.Identity, run, id, result)
		} else if run != "" {
			return result // it goes on elsewhere
		}
		if err := s.askPerson(ctx, c, call.Identity, id); err != nil {
			return refused(result, err)
		}
		// A client is asked once; where others must approve too, the call waits.
		call.Approval, call.NoWait = id, false
	}
}

// withPage names the page in the next step of a call that waits for a person.
func (s *Server) withPage(r *toolroom.Result) *toolroom.Result {
	if s.o.Page == "" || r.Error == nil || r.Error.Code != toolroom.CodeApprovalRequired || r.Error.Approval == "" {
		return r
	}
	named, failed := *r, *r.Error
	failed.Hint = strings.Replace(failed.Hint, "toolroom approve "+failed.Approval, "toolroom approve "+failed.Approval+", or on the page "+s.o.Page, 1)
	named.Error = &failed
	return &named
}

// goOn stays with a program that waits for a person: it puts the questions that
// the user of the client may answer to the client, until the program is done.
func (s *Server) goOn(ctx context.Context, c client, who toolroom.Identity, run, id string, result *toolroom.Result) *toolroom.Result {
	for {
		asked, err := s.o.Approvals.Get(ctx, id)
		if err == nil && approval.CallerAnswers(asked.ApprovalTerms, who) {
			err = s.askPerson(ctx, c, who, id)
		}
		if err != nil {
			return refused(result, err)
		}
		next, done, err := s.o.Worker.GoOn(ctx, run)
		if err != nil {
			return refused(result, err)
		}
		if done || toolroom.CodeOf(next.Err()) != toolroom.CodeApprovalRequired {
			return next // it has ended, even where its result could not be stored
		}
		result = next
		id = result.Error.Approval
	}
}

// asksCaller reports whether the question about a call would be put to the user
// of the client that makes it.
func (s *Server) asksCaller(c client, call toolroom.Call, e *catalog.Entry) bool {
	if s.o.Approvals == nil || !c.Can(source.MethodElicit) {
		return false
	}
	tool := call.Tool
	if e != nil {
		tool = e.ID
	}
	return approval.CallerAnswers(s.o.Approvals.Terms(tool), call.Identity)
}

// takesTask reports whether a call that waits for a person is to give its client a
// task at once: a program can, since it goes on without the request.
func takesTask(c client, e *catalog.Entry) bool {
	return c.takesTasks() && e != nil && e.ID == code.Tool
}

// refused is a result whose approval could not be asked for.
func refused(r *toolroom.Result, err error) *toolroom.Result {
	failed := *r
	failed.Error = toolroom.AsError(err)
	failed.Status = failed.Error.Code.Info().Status
	return &failed
}

// askPerson waits until an approval is decided, in the client or elsewhere.
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
		// What was decided, the call itself will see.
		_, _ = s.o.Approvals.Wait(ctx, id)
	}()
	answers, err := c.AskFor(ctx, map[string]source.Question{questionKey: question}, id)
	switch {
	case err == nil:
		err = s.takeAnswer(context.WithoutCancel(ctx), who, id, answers[questionKey])
	case ctx.Err() != nil:
		err = nil // decided elsewhere, or the caller has left
	}
	cancel()
	<-decided
	if caller.Err() != nil && !c.comesBack() {
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

// takeAnswer records the answer that a client gave to an approval.
func (s *Server) takeAnswer(ctx context.Context, who toolroom.Identity, id string, raw json.RawMessage) error {
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
		return nil // answered elsewhere meanwhile; the call will see
	}
	_, err = s.o.Approvals.Answer(ctx, id, toolroom.Answer{
		Approve: answer.Action == "accept" && answer.Content.Approve,
		By:      who.Key(),
		Comment: "answered in the MCP client: " + answer.Action,
		Who:     who, Elicited: true,
	})
	return err
}

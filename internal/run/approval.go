package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/source"
)

// ApprovalHooks are callbacks for the time that a call waits for a person.
type ApprovalHooks struct {
	// Began is called with the approval before the wait and returns how long the wait may
	// last. Ended is called when the approval has been answered or the call was cancelled,
	// but not if the wait took too long or the call was suspended.
	Began func(*toolroom.Approval) (time.Duration, error)
	Ended func(*toolroom.Approval)
}

// approve waits until people have answered, if policy requires an approval. The
// time does not count against the deadline, which starts when the tool starts.
func (c *claimedCall) approve() (*approvedCall, error) {
	a := &approvedCall{claimedCall: c}
	if c.decision.Effect != toolroom.VerdictConfirm || c.resume != nil { // a resumed call was approved when it began
		return a, nil
	}
	return a, a.obtainApproval()
}

// obtainApproval finds a grant or an approval for the call, or asks a person for one.
func (c *approvedCall) obtainApproval() error {
	approvals := c.runner.Approvals
	if approvals == nil {
		return toolroom.Errorf(toolroom.CodeApprovalRequired, "%s needs a person's approval (%s%s), and no approvals are possible here", c.tool, c.decision.Rule, c.because())
	}
	if c.request.Approval != "" && c.canResume() {
		c.approval = c.request.Approval // it was used when this call began
		return nil
	}
	question, err := c.question()
	if err != nil {
		return err
	}
	// A grant was made without knowing these taint labels, or this sum. Nor does it cover a
	// call whose unused question proves that it has not begun: the proof would outlive the call.
	if !c.leaks && !c.costly && c.entry.Tool.Confirm == "" && c.earlierClaim.IsZero() {
		grant, err := approvals.FindGrant(c.ctx, question)
		if err != nil {
			return err
		}
		if grant != nil {
			c.approval = grant.ID
			return nil
		}
	}
	asked, err := c.findOrRequestApproval(question)
	if err != nil {
		return err
	}
	if asked.State == toolroom.ApprovalPending {
		if asked, err = c.waitForPerson(asked); err != nil {
			return err
		}
		if err = c.checkToken(); err != nil {
			return err
		}
	}
	if asked.State == toolroom.ApprovalApproved {
		c.unusedApproval = asked.ID
	} else if err := approvals.Use(c.ctx, asked.ID); err != nil {
		return err
	}
	c.approval = asked.ID
	return nil
}

// useApproval marks the approval of this call as used. It is called when nothing else can
// refuse the call, because an approval serves one call.
func (c *clearedCall) useApproval() error {
	if c.unusedApproval == "" {
		return nil
	}
	err := c.runner.Approvals.Use(c.ctx, c.unusedApproval)
	if err != nil {
		c.approval = ""
	}
	return err
}

// question returns the question about this call, without its predicted effects.
func (c *decidedCall) question() (toolroom.Approval, error) {
	canonical, err := c.canonicalArguments()
	if err != nil {
		return toolroom.Approval{}, err
	}
	return toolroom.Approval{
		Call:        c.request.ID,
		Digest:      approval.CallDigest(&c.entry.Tool, c.request.Environment, canonical, c.more(), c.request.Identity),
		Tool:        c.tool,
		Identity:    c.request.Identity,
		Session:     c.request.Session,
		Environment: approval.Environment(c.request.Environment, c.request.Identity),
		Reason:      c.decision.Rule + c.because(),
	}, nil
}

// maxShownMore is the largest [toolroom.Call.More] that a question shows.
const maxShownMore = 16 << 10

// more returns what the call sends to its tool besides the arguments, or nil.
// Only MCP servers receive it.
func (c *resolvedCall) more() []byte {
	if c.entry.Tool.Source != toolroom.SourceMCP {
		return nil
	}
	return c.request.More
}

// findOrRequestApproval returns the approval that decides about this call: the one that the
// caller names, else the open one of exactly the same call, else a new one.
func (c *decidedCall) findOrRequestApproval(question toolroom.Approval) (*toolroom.Approval, error) {
	if c.background != nil {
		// A job that was suspended or cut off does not ask again: it may have expired.
		if before, err := c.findUnusedApproval(question.Digest); before != nil || err != nil {
			return before, err
		}
	}
	if c.request.Approval != "" {
		named, err := c.runner.Approvals.Get(c.ctx, c.request.Approval)
		if err == nil && named.Digest == question.Digest {
			return named, nil
		}
		// It belongs to another call, or is gone: this call needs its own.
	}
	question.Arguments = c.recordedArguments(c.resolvedCall, false)
	preview := c.preparePreview()
	for _, sentence := range preview.Effects {
		question.Effects = append(question.Effects, c.runner.Secrets.Text(sentence))
	}
	question.Effects = append(question.Effects, c.shownEffects()...)
	if more := c.more(); len(more) > maxShownMore {
		question.Effects = append(question.Effects, fmt.Sprintf("sends, besides the arguments, %d bytes that are too many to show", len(more)))
	} else if len(more) > 0 {
		question.Effects = append(question.Effects, "sends, besides the arguments, "+c.runner.Secrets.Text(string(more)))
	}
	question.Diff = c.runner.Secrets.Text(preview.Diff)
	return c.runner.Approvals.Request(c.ctx, question)
}

// findUnusedApproval returns the unused approval of this call with this digest, or nil.
func (c *decidedCall) findUnusedApproval(digest string) (*toolroom.Approval, error) {
	all, err := c.runner.Approvals.List(c.ctx, "")
	if err != nil {
		return nil, err
	}
	for _, a := range slices.Backward(all) {
		if a.Call == c.request.ID && a.Digest == digest && a.Used.IsZero() {
			return a, nil
		}
	}
	return nil, nil
}

// preparePreview returns the source's preview of the call. It is empty if there is none: then
// the person decides without it.
func (c *resolvedCall) preparePreview() source.Preview {
	if c.runner.Preview == nil {
		return source.Preview{}
	}
	preview, err := c.runner.Preview(c.ctx, &c.entry.Tool, c.entry.Source, &source.Request{
		Call: c.request.ID, Tool: c.entry.Tool.ID, Arguments: c.request.Arguments, Identity: c.request.Identity, Session: c.request.Session,
		Emit: func(toolroom.Event) {},
	})
	if err != nil {
		c.runner.Log.Warn("failed to preview a call", "call", c.request.ID, "tool", c.tool, "error", err)
	}
	return preview
}

// waitForPerson waits for the answer to a question. It returns an error if the call ends or is
// suspended before the answer arrives, or if the answer is no.
func (c *approvedCall) waitForPerson(asked *toolroom.Approval) (*toolroom.Approval, error) {
	c.emitApproval(asked)
	if c.request.NoWait {
		return nil, approvalRequired(c.tool, asked)
	}
	began := c.runner.Now()
	defer func() { c.waited += c.runner.Now().Sub(began) }()
	// The wait does not count against the deadlines of the parent calls either.
	defer deadline.Pause(c.ctx)()
	longest := c.runner.Limits().ApprovalWait
	if c.hooks.Began != nil {
		var err error
		if longest, err = c.hooks.Began(asked); err != nil {
			return nil, err
		}
	}
	longest = limitApprovalWait(c.ctx, longest)
	job := c.background
	if job != nil {
		if err := job.WaitFor(c.ctx, []string{asked.ID}); err != nil {
			return nil, err
		}
		c.suspension.Store(job)
		longest = min(longest, job.MaxWait())
	}
	ctx, cancel := context.WithTimeout(c.ctx, longest)
	defer cancel()
	answered, err := c.runner.Approvals.Wait(ctx, asked.ID)
	suspended := errors.Is(context.Cause(c.ctx), ErrSuspended)
	if c.hooks.Ended != nil && !suspended && (c.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		c.hooks.Ended(answered)
	}
	switch {
	case suspended:
		return nil, approvalRequired(c.tool, asked)
	case c.ctx.Err() != nil:
		if !c.continuesLater() { // no caller is waiting for the answer any more
			if err := c.runner.Approvals.Abandon(context.WithoutCancel(c.ctx), asked.ID); err != nil {
				c.runner.Log.Warn("failed to cancel the approval of a cancelled call", "approval", asked.ID, "error", err)
			}
		}
		e := toolroom.Errorf(toolroom.CodeOf(c.ctx.Err()), "the call was cancelled while it waited for approval %s", asked.ID)
		e.Cause = c.ctx.Err()
		return nil, e
	case errors.Is(err, context.DeadlineExceeded):
		if job != nil {
			job.Suspend() // others need the slot; the answer resumes the job
		}
		return nil, approvalRequired(c.tool, asked)
	case toolroom.CodeOf(err) == toolroom.CodeApprovalDeclined:
		return nil, c.runner.Approvals.Use(c.ctx, asked.ID) // the decline is reported here, so a repeat asks again
	}
	if job != nil && err == nil {
		c.suspension.Store(nil)
		err = job.WaitFor(c.ctx, nil)
	}
	if answered != nil {
		c.emitApproval(answered)
	}
	return answered, err
}

// approvalRequired returns the error of a call that ends while a person has not answered.
func approvalRequired(tool string, a *toolroom.Approval) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeApprovalRequired, "%s is waiting for approval by a person (%s): %s", tool, a.ID, a.Reason)
	e.Approval = a.ID
	e.Details = map[string]any{"expires": a.Expires, "reason": a.Reason}
	return e.WithHint("a person answers with: toolroom approve %s. Then make the same call again; it runs once", a.ID)
}

func (c *call) emitApproval(a *toolroom.Approval) {
	c.emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &toolroom.ApprovalNotice{
		ID: a.ID, State: string(a.State), Reason: a.Reason, Expires: a.Expires,
	}})
}

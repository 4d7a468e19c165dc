package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/patience"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// approve suspends the call until people have answered, when policy asks. The
// time does not count against the deadline, which starts when the tool does.
func (p *pass) approve() error {
	if p.decision.Effect != policy.Confirm || p.resume != nil { // what is carried on was approved when it began
		return nil
	}
	if p.Desk == nil {
		return toolroom.Errorf(toolroom.CodeApprovalRequired, "%s needs a person's approval (%s%s), and nobody can be asked here", p.tool, p.decision.Rule, p.because())
	}
	if p.call.Approval != "" && p.resumes() {
		p.approval = p.call.Approval // it served when this call began
		return nil
	}
	question, err := p.question()
	if err != nil {
		return err
	}
	if !p.leaks && !p.costly { // nobody who said yes in advance knew of what is in reach now, or of the sum
		standing, err := p.Desk.Granted(p.ctx, question)
		if err != nil {
			return err
		}
		if standing != nil {
			p.approval = standing.ID
			return nil
		}
	}
	asked, err := p.ask(question)
	if err != nil {
		return err
	}
	if asked.State == approval.Pending {
		if asked, err = p.waitForPerson(asked); err != nil {
			return err
		}
	}
	if err := p.Desk.Use(p.ctx, asked.ID); err != nil {
		return err
	}
	p.approval = asked.ID
	return nil
}

// question is what names this call to people, without what it would do.
func (p *pass) question() (approval.Approval, error) {
	canonical, err := p.canonicalArguments()
	if err != nil {
		return approval.Approval{}, err
	}
	return approval.Approval{
		Call:     p.call.ID,
		Digest:   approval.Digest(p.entry.Tool.ID, canonical, p.more(), p.call.Identity),
		Tool:     p.tool,
		Identity: p.call.Identity,
		Session:  p.call.Session,
		Reason:   p.decision.Rule + p.because(),
	}, nil
}

// maxShownMore is how much of what a call takes along a person is shown.
const maxShownMore = 16 << 10

// more is what a call has besides its arguments that its tool may obey, nil for
// nothing: only the servers of a protocol are sent it.
func (p *pass) more() []byte {
	if p.entry.Tool.Source != toolroom.SourceMCP {
		return nil
	}
	return p.call.More
}

// ask is the approval that decides about this call: the one that the caller
// names, else the open one for the very same call, else a new one.
func (p *pass) ask(question approval.Approval) (*approval.Approval, error) {
	if p.call.Approval != "" {
		named, err := p.Desk.Get(p.ctx, p.call.Approval)
		if err == nil && named.Digest == question.Digest {
			return named, nil
		}
		// It is of another call, or gone: this one needs its own.
	}
	question.Arguments = p.recordedArguments()
	foreseen := p.foresee()
	for _, sentence := range foreseen.Effects {
		question.Effects = append(question.Effects, p.Secrets.Text(sentence))
	}
	question.Effects = append(question.Effects, p.shownEffects()...)
	if more := p.more(); len(more) > maxShownMore {
		question.Effects = append(question.Effects, fmt.Sprintf("takes along, besides the arguments, %d bytes that are too many to show", len(more)))
	} else if len(more) > 0 {
		question.Effects = append(question.Effects, "takes along, besides the arguments, "+p.Secrets.Text(string(more)))
	}
	question.Diff = p.Secrets.Text(foreseen.Diff)
	return p.Desk.Request(p.ctx, question)
}

// foresee asks what the call would do. A person decides without it where nobody
// can tell.
func (p *pass) foresee() source.Preview {
	if p.Preview == nil {
		return source.Preview{}
	}
	preview, err := p.Preview(p.ctx, &p.entry.Tool, p.entry.Source, &source.Request{
		Call: p.call.ID, Tool: p.entry.Tool.ID, Arguments: p.call.Arguments, Identity: p.call.Identity,
		Emit: func(toolroom.Event) {},
	})
	if err != nil {
		p.Log.Warn("what a call would do is not known", "call", p.call.ID, "tool", p.tool, "error", err)
	}
	return preview
}

func (p *pass) waitForPerson(asked *approval.Approval) (*approval.Approval, error) {
	p.notice(asked)
	if p.call.NoWait {
		return nil, approvalRequired(p.tool, asked)
	}
	began := p.Now()
	defer func() { p.result.Usage.Wait += p.Now().Sub(began) }()
	// The calls that this one is made from do not pay for it either.
	defer patience.Hold(p.ctx)()
	most := p.Limits.ApprovalWait
	if p.waiting.Began != nil {
		var err error
		if most, err = p.waiting.Began(asked); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(p.ctx, most)
	defer cancel()
	answered, err := p.Desk.Wait(ctx, asked.ID)
	parked := errors.Is(context.Cause(p.ctx), ErrParked)
	if p.waiting.Ended != nil && !parked && (p.ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		p.waiting.Ended(answered)
	}
	switch {
	case parked:
		return nil, approvalRequired(p.tool, asked)
	case p.ctx.Err() != nil:
		// Nobody is left whom an answer would serve.
		if err := p.Desk.Abandon(context.WithoutCancel(p.ctx), asked.ID); err != nil {
			p.Log.Warn("the question of a cancelled call stays open", "approval", asked.ID, "error", err)
		}
		return nil, fmt.Errorf("the call was given up while it waited for approval %s: %w", asked.ID, p.ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return nil, approvalRequired(p.tool, asked)
	case toolroom.CodeOf(err) == toolroom.CodeApprovalDeclined:
		return nil, p.Desk.Use(p.ctx, asked.ID) // this call was told: a repeat asks anew
	}
	if answered != nil {
		p.notice(answered)
	}
	return answered, err
}

func approvalRequired(tool string, a *approval.Approval) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeApprovalRequired, "%s is waiting for approval by a person (%s): %s", tool, a.ID, a.Reason)
	e.Details = map[string]any{"approval": a.ID, "expires": a.Expires, "reason": a.Reason}
	return e.WithHint("a person answers with: toolroom approve %s. Then make the same call again; it runs once", a.ID)
}

func (p *pass) notice(a *approval.Approval) {
	p.emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &toolroom.ApprovalNotice{
		ID: a.ID, State: string(a.State), Reason: a.Reason, Expires: a.Expires,
	}})
}

package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/server/auth"
)

type receiptsInput struct {
	CallFilter
	Code   toolroom.Code `query:"code" doc:"only calls that failed with this error code"`
	Label  string        `query:"label" doc:"only calls with this taint label"`
	Parent string        `query:"parent" doc:"only calls that this call made"`
	Cursor int64         `query:"cursor" minimum:"0" doc:"next of the previous page; empty for the first"`
	Limit  int           `query:"limit" minimum:"0" doc:"page size (default 50, at most 1,000)"`
}

// CallFilter selects calls by their receipts.
type CallFilter struct {
	Tool        string          `query:"tool" doc:"canonical id; @2 selects a version"`
	Environment string          `query:"environment" doc:"only calls in this environment, of tools that have versions"`
	Status      toolroom.Status `query:"status" enum:"ok,error,denied,cancelled,timeout"`
	Subject     string          `query:"subject" doc:"caller; only operators may name another caller"`
	Surface     string          `query:"surface"`
	Since       time.Time       `query:"since" doc:"only calls that started at or after this time"`
	Until       time.Time       `query:"until" doc:"only calls that started before this time"`
}

// selected returns the receipts that the filter selects.
func (f *CallFilter) selected() (toolroom.ReceiptQuery, error) {
	q := toolroom.ReceiptQuery{Environment: f.Environment, Status: f.Status, Subject: f.Subject, Surface: f.Surface, Since: f.Since, Until: f.Until}
	return q, q.Select(f.Tool)
}

// query returns the receipts that the filter selects and the caller may see.
func (f *CallFilter) query(ctx context.Context) (toolroom.ReceiptQuery, error) {
	q, err := f.selected()
	if err != nil {
		return q, err
	}
	if who := auth.Identity(ctx); !auth.IsOperator(who) {
		if q.Subject != "" && q.Subject != who.Key() {
			return q, toolroom.Errorf(toolroom.CodeDenied, "only an operator may see the calls of %s", q.Subject).
				WithHint("omit subject to see your own")
		}
		q.Subject, q.ReachedBy = who.Key(), &who
	}
	return q, nil
}

type receiptPage struct {
	Calls []*toolroom.Receipt `json:"calls"`
	// Answers are what has become of the approvals that calls of the page waited for, by the
	// id that their receipts name as pending_approval.
	Answers map[string]LaterAnswer `json:"answers,omitempty"`
	// Next is the cursor of the next page; empty at the end of the list.
	Next string `json:"next,omitempty"`
}

// LaterAnswer is what has become of an approval since a call ended because of it.
type LaterAnswer struct {
	State toolroom.ApprovalState `json:"state" enum:"pending,approved,declined,expired,cancelled"`
	// By names the people who approved, or the one who declined.
	By      string `json:"by,omitempty"`
	Comment string `json:"comment,omitempty"`
	// Used is when the repeated call started, or was refused because of the decline.
	Used time.Time `json:"used,omitzero"`
}

type idInput struct {
	ID string `path:"id"`
}

// CallRecord is a call's record: the state and result of a background call, and the
// receipt of a call that has ended.
type CallRecord struct {
	ID    string            `json:"id"`
	State toolroom.JobState `json:"state" enum:"queued,running,waiting,done"`
	// Approvals are the ids of the approvals for which a suspended call waits.
	Approvals []string          `json:"approvals,omitempty"`
	Result    *toolroom.Result  `json:"result,omitempty"`
	Receipt   *toolroom.Receipt `json:"receipt,omitempty"`
	// Answer is what has become of the approval that the receipt names as pending_approval.
	Answer *LaterAnswer `json:"answer,omitempty"`

	owner toolroom.Identity
}

type cancelOutput struct {
	Status int
	Body   Cancelling
}

// Cancelling acknowledges that a call is being ended.
type Cancelling struct {
	ID         string `json:"id"`
	Cancelling bool   `json:"cancelling"`
}

func (s *Server) listReceipts(ctx context.Context, in *receiptsInput) (*jsonOutput[receiptPage], error) {
	if s.o.Receipts == nil {
		return nil, unsupportedError("this server does not keep receipts")
	}
	q, err := in.query(ctx)
	if err != nil {
		return nil, err
	}
	return s.receiptsOf(ctx, in, q)
}

func (s *Server) getCall(ctx context.Context, in *idInput) (*jsonOutput[CallRecord], error) {
	record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if record.Receipt != nil {
		record.Answer, err = s.laterAnswer(ctx, record.Receipt.PendingApproval)
	}
	return &jsonOutput[CallRecord]{*record}, err
}

// laterAnswer returns what has become of an approval, or nil if id is empty, or there is no such
// approval any more, or the caller may not see it.
func (s *Server) laterAnswer(ctx context.Context, id string) (*LaterAnswer, error) {
	if id == "" || s.o.Approvals == nil {
		return nil, nil
	}
	a, err := s.o.Approvals.Get(ctx, id)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil || !canSeeApproval(ctx, a) {
		return nil, err
	}
	return &LaterAnswer{State: a.State, By: a.By, Comment: a.Comment, Used: a.Used}, nil
}

// record returns the record of a call that the caller may see.
func (s *Server) record(ctx context.Context, id string) (*CallRecord, error) {
	record, err := s.findRecord(ctx, id)
	if err == nil && record == nil {
		if id, err = s.callID(ctx, id); err == nil {
			record, err = s.findRecord(ctx, id)
		}
	}
	if err != nil {
		return nil, err
	}
	if record == nil || !canRead(ctx, record.owner) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "call %q not found", id).
			WithHint("list your calls: GET %s/calls", Prefix)
	}
	return record, nil
}

// callID completes the id of a run or of one of the newest calls that the caller may see.
func (s *Server) callID(ctx context.Context, typed string) (string, error) {
	runs, err := s.runs(ctx)
	if err != nil {
		return "", err
	}
	ids := idsOf(runs, func(r Run) string { return r.ID })
	if s.o.Receipts != nil {
		q, err := (&CallFilter{}).query(ctx)
		if err != nil {
			return "", err
		}
		q.Limit = MaxPage
		list, err := s.o.Receipts.Receipts(ctx, q)
		if err != nil {
			return "", err
		}
		ids = append(ids, idsOf(list, func(r *toolroom.Receipt) string { return r.ID })...)
	}
	slices.Sort(ids)
	return nearest.ID(typed, slices.Compact(ids))
}

func idsOf[T any](list []T, id func(T) string) []string {
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = id(one)
	}
	return ids
}

func (s *Server) findRecord(ctx context.Context, id string) (*CallRecord, error) {
	record := &CallRecord{ID: id}
	if jobs := s.o.Runner.Jobs; jobs != nil {
		job, err := jobs.Job(ctx, id)
		switch {
		case err == nil:
			record.State, record.Result, record.Approvals, record.owner = job.State, job.Result, job.Approvals, job.Identity
		case !isNotFound(err):
			return nil, err
		}
	}
	if s.o.Receipts != nil {
		r, err := s.o.Receipts.Receipt(ctx, id)
		switch {
		case err == nil:
			record.Receipt, record.owner = r, r.Identity
			record.State = cmp.Or(record.State, toolroom.JobDone)
		case !isNotFound(err):
			return nil, err
		}
	}
	if record.State == "" {
		call, ok := s.running.get(id)
		if !ok {
			return nil, nil
		}
		record.State, record.owner = toolroom.JobRunning, call.owner
	}
	return record, nil
}

func isNotFound(err error) bool {
	return errors.Is(err, &toolroom.Error{Code: toolroom.CodeNotFound})
}

// canRead reports whether the caller may see the records of maker. A record that the
// caller may not see is reported as not found.
func canRead(ctx context.Context, maker toolroom.Identity) bool {
	who := auth.Identity(ctx)
	return auth.IsOperator(who) || identity.Reaches(who, maker)
}

func (s *Server) cancelCall(ctx context.Context, in *idInput) (*cancelOutput, error) {
	record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	cancelled := false
	if call, ok := s.running.get(record.ID); ok {
		call.cancel()
		cancelled = true
	} else if record.State == toolroom.JobQueued || record.State == toolroom.JobWaiting {
		if cancelled, err = s.o.Runner.CancelIdle(ctx, record.ID); err != nil {
			return nil, err
		}
	}
	if !cancelled && s.o.Worker != nil {
		cancelled = s.o.Worker.CancelRunning(record.ID)
	}
	switch {
	case cancelled:
		return &cancelOutput{Status: http.StatusAccepted, Body: Cancelling{ID: record.ID, Cancelling: true}}, nil
	case record.State == toolroom.JobDone:
		return nil, toolroom.Errorf(toolroom.CodeConflict, "call %s has already ended", record.ID)
	default:
		return nil, toolroom.Errorf(toolroom.CodeConflict, "call %s does not run in this process", record.ID).
			WithHint("try again once it is running, on the server that runs it")
	}
}

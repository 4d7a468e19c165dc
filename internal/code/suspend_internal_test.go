package code

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/source"
)

// ending returns a handler whose program ends with the returned context.
func ending(t *testing.T, entries ...session.JournalEntry) (*handler, context.Context) {
	ctx, end := context.WithCancelCause(t.Context())
	return &handler{
		Service: &Service{},
		request: &source.Request{Call: "call_1"}, journal: session.ResumeJournal(entries), suspension: &run.Suspension{},
		waiting: map[int]string{}, cancel: end,
	}, ctx
}

// request is a call of a tool by a program.
func request(tool string) session.JournalEntry {
	return session.JournalEntry{Tool: tool, Listed: &toolroom.ExecutionCall{Tool: tool}}
}

// tools returns the tools of the requests that the journal has.
func (h *handler) tools() []string {
	var tools []string
	for _, c := range h.journal.Calls() {
		tools = append(tools, c.Tool)
	}
	return tools
}

func TestARequestAfterASuspensionIsNotRecorded(t *testing.T) {
	t.Parallel()
	h, ctx := ending(t)
	_, err := h.replayOrServe(ctx, request("shop:pay"), func(place int, _ string) *toolroom.Result {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.waiting[place] = "apr_1"
		h.inProgress-- // as beginWait does
		return &toolroom.Result{}
	})
	if err == nil || ctx.Err() == nil {
		t.Fatalf("the program was not suspended: %v", err)
	}
	// The engine can give the error of the end to the program before it stops it, and the
	// program may catch it.
	if _, err := h.replayOrServe(ctx, request("shop:ship"), func(int, string) *toolroom.Result {
		t.Error("a suspended program called a tool")
		return &toolroom.Result{}
	}); err == nil {
		t.Error("a suspended program got an answer")
	}
	if diff := cmp.Diff([]string{"shop:pay"}, h.tools()); diff != "" {
		t.Error(diff)
	}
}

func TestACallBesideOneThatSuspendsTheProgramIsNotRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, ctx := ending(t)
		h.suspending, h.inProgress = true, 1 // another call works on
		late := make(chan error, 1)
		go func() {
			_, err := h.replayOrServe(ctx, request("shop:ship"), func(int, string) *toolroom.Result { return &toolroom.Result{} })
			late <- err
		}()
		synctest.Wait() // the call cannot know yet that the program ends
		h.cancel(run.ErrSuspended)
		if err := <-late; err == nil || len(h.tools()) > 0 {
			t.Errorf("%v, recorded: %v", err, h.tools())
		}
	})
}

func TestACallThatHadNotBegunIsRecordedAsBegunWhenItIsMadeAgain(t *testing.T) {
	t.Parallel()
	cut := request("shop:ship")
	cut.NotBegun = true
	h, ctx := ending(t, cut)
	var stored session.JournalEntry
	if err := h.journal.Persist(func([]session.JournalEntry) error { return nil }, func(_ int, e session.JournalEntry) error {
		stored = e
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.replayOrServe(ctx, request("shop:ship"), func(int, string) *toolroom.Result {
		if stored.Tool != "shop:ship" || stored.NotBegun {
			t.Errorf("if the process ended now, the call would be made a third time: %+v", stored)
		}
		return &toolroom.Result{}
	}); err != nil || stored.Result == nil {
		t.Errorf("%v, stored: %+v", err, stored)
	}
}

// unused is a store of approvals that were given, and that no call has used.
type unused struct{ approval.Store }

func (unused) Approval(_ context.Context, id string, _ time.Time) (*toolroom.Approval, error) {
	return &toolroom.Approval{ID: id, State: toolroom.ApprovalApproved}, nil
}

func TestACallThatNeedsItsApprovalNoLongerIsMadeOnce(t *testing.T) {
	t.Parallel()
	waited := request("shop:pay")
	waited.Approval = "apr_1"
	stored := waited
	service := &Service{o: Options{Runner: run.New(run.Options{
		Catalog: catalog.New(catalog.Options{}), Approvals: approval.New(unused{}, approval.Options{}),
	})}}
	resume := func(do func(int, string) *toolroom.Result) *toolroom.Result {
		h, ctx := ending(t, stored)
		h.Service = service
		if err := h.journal.Persist(func([]session.JournalEntry) error { return nil }, func(_ int, e session.JournalEntry) error {
			stored = e
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		r, err := h.replayOrServe(ctx, request("shop:pay"), do)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var killed session.JournalEntry
	resume(func(_ int, approval string) *toolroom.Result {
		if approval != "apr_1" {
			t.Errorf("the call is made with the approval %q", approval)
		}
		killed = stored
		return &toolroom.Result{} // the tool ran by a grant
	})
	stored = killed
	r := resume(func(int, string) *toolroom.Result {
		t.Error("a call that had begun is made again")
		return &toolroom.Result{}
	})
	if r.Effects != toolroom.EffectsUnknown {
		t.Errorf("%+v", r)
	}
}

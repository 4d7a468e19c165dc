package run_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func TestAYesForMoreThanOneCallLetsNoMoreThroughThanWasSaid(t *testing.T) {
	t.Parallel()
	ann := toolroom.Identity{Subject: "ann"}
	call := toolroom.Call{Tool: "rm:it", Arguments: json.RawMessage(`{"path":"a"}`), Identity: ann, Session: "s", NoWait: true}
	change := func(f func(*toolroom.Call)) toolroom.Call { c := call; f(&c); return c }
	same, other := change(func(*toolroom.Call) {}), change(func(c *toolroom.Call) { c.Arguments = json.RawMessage(`{"path":"b"}`) })
	elsewhere := change(func(c *toolroom.Call) { c.Session = "t" })
	eve := change(func(c *toolroom.Call) { c.Identity.Subject = "eve" })
	test := change(func(c *toolroom.Call) { c.Environment = "test" })
	for scope, want := range map[toolroom.ApprovalScope][5]bool{
		toolroom.ScopeOnce:    {},
		toolroom.ScopeCall:    {true, false, true, false, false},
		toolroom.ScopeSession: {true, true, false, false, false},
		toolroom.ScopeAlways:  {true, true, true, false, false},
	} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))))
			var calls atomic.Int64
			b.add(tool("rm:it"), counting(&calls))
			r := b.Run(t.Context(), call)
			id := r.Error.Approval
			if _, err := b.Approvals.Answer(t.Context(), id, toolroom.Answer{Approve: true, Scope: scope}); err != nil {
				t.Fatal(err)
			}
			if scope == toolroom.ScopeOnce {
				b.Run(t.Context(), call) // which uses it up
			}
			var got [5]bool
			for i, c := range []toolroom.Call{same, other, elsewhere, eve, test} {
				got[i] = b.Run(t.Context(), c).OK()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("same, other arguments, other session, eve, another environment (-want +got):\n%s", diff)
			}
			grants, err := b.Approvals.Grants(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range grants {
				if err := b.Approvals.RemoveGrant(t.Context(), g.ID); err != nil {
					t.Fatal(err)
				}
			}
			if r := b.Run(t.Context(), same); r.OK() {
				t.Error("it ran though the permission was taken back")
			}
		})
	}
}

func TestAQuestionIsCancelledWithItsCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))))
	var calls atomic.Int64
	b.add(tool("rm:it"), counting(&calls))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		poll(t, func() (bool, bool) {
			list, err := b.Approvals.List(t.Context(), toolroom.ApprovalPending)
			return true, err == nil && len(list) == 1
		})
		cancel()
	}()
	r := b.Run(ctx, toolroom.Call{Tool: "rm:it"})
	if r.Status != toolroom.StatusCancelled || r.Error.Code != toolroom.CodeCancelled || r.Effects != toolroom.EffectsNone {
		t.Errorf("got %s with effects %s: %v", r.Status, r.Effects, r.Error)
	}
	list, err := b.Approvals.List(t.Context(), "")
	if err != nil || len(list) != 1 || list[0].State != toolroom.ApprovalCancelled {
		t.Fatalf("the question is %+v, %v", list, err)
	}
	if _, err := b.Approvals.Answer(t.Context(), list[0].ID, toolroom.Answer{Approve: true}); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("it was answered: %v", err)
	}
	if calls.Load() != 0 {
		t.Error("it ran")
	}
}

func TestAQuestionSaysWhatTheCallWouldDoWithoutSecrets(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, func(o *run.Options) {
		confirmAll(t, store)(o)
		o.Secrets = knowing("hunter2")
		o.Preview = func(_ context.Context, tool *toolroom.Tool, _ source.Source, req *source.Request) (source.Preview, error) {
			return source.Preview{Effects: []string{"writes hunter2 to " + tool.ID.String()}, Diff: "+hunter2\n"}, nil
		}
	})
	b.add(tool("file:write"), value(`1`))
	r := b.Run(t.Context(), toolroom.Call{Tool: "file:write", Arguments: json.RawMessage(`{"text":"hunter2"}`), NoWait: true})
	id := r.Error.Approval
	a, err := b.Approvals.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{string(a.Arguments), a.Diff, a.Effects[0]}
	if len(a.Effects) != 3 { // the others are what its hints say
		t.Errorf("it would do %q", a.Effects)
	}
	if diff := cmp.Diff([]string{`{"text":"[secret s/v]"}`, "+[secret s/v]\n", "writes [secret s/v] to file:write"}, got); diff != "" {
		t.Errorf("question (-want +got):\n%s", diff)
	}
}

func TestAnArgumentThatAModelFillsInIsNoConsent(t *testing.T) {
	t.Parallel()
	b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))))
	var calls atomic.Int64
	b.add(tool("rm:it"), counting(&calls))
	for _, args := range []string{
		`{"confirm":true}`, `{"approved":true,"approval":"yes"}`, `{"inputResponses":{"approval":{"action":"accept","content":{"approve":true}}}}`,
	} {
		r := b.Run(t.Context(), toolroom.Call{Tool: "rm:it", Arguments: json.RawMessage(args), NoWait: true})
		if r.Error == nil || r.Error.Code != toolroom.CodeApprovalRequired || calls.Load() != 0 {
			t.Errorf("%s: %s %v", args, r.Status, r.Error)
			continue
		}
		if kept := b.receipts.last(); kept.PendingApproval != r.Error.Approval || kept.PendingApproval == "" || kept.Approval != "" {
			t.Errorf("%s: the receipt names the approvals %q and %q, the error %q", args, kept.PendingApproval, kept.Approval, r.Error.Approval)
		}
	}
}

// TestWhatACallTakesAlongIsApprovedWithIt: a server behind the tool may obey a member
// that is none of the arguments, and who was allowed one call swaps it.
func TestWhatACallTakesAlongIsApprovedWithIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))))
	var calls atomic.Int64
	remote := tool("rm:it")
	remote.Source = toolroom.SourceMCP
	b.add(remote, counting(&calls))
	call := toolroom.Call{Tool: "rm:it", More: json.RawMessage(`{"target":"a scratch file"}`), NoWait: true}
	asked := func(call toolroom.Call) *toolroom.Approval {
		t.Helper()
		id := b.Run(t.Context(), call).Error.Approval
		a, err := b.Approvals.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := asked(call)
	if shown := strings.Join(first.Effects, "\n"); !strings.Contains(shown, `{"target":"a scratch file"}`) {
		t.Errorf("the person is shown %q", shown)
	}
	if _, err := b.Approvals.Answer(t.Context(), first.ID, toolroom.Answer{Approve: true, Scope: toolroom.ScopeCall}); err != nil {
		t.Fatal(err)
	}
	for length, shown := range map[int]string{16 << 10: strings.Repeat("m", 16<<10-2) + `"`, 16<<10 + 1: "16385 bytes that are too many to show"} {
		long := call
		long.More = json.RawMessage(`"` + strings.Repeat("m", length-2) + `"`)
		if effects := asked(long).Effects; len(effects) != 3 || !strings.HasPrefix(effects[2], "sends, besides the arguments, ") || !strings.HasSuffix(effects[2], shown) {
			t.Errorf("%d bytes: the person is shown %.100q", length, effects)
		}
	}
	for _, more := range []string{`{"target":"everything"}`, ``, `{"target":"a scratch file","target2":1}`} {
		swapped := call
		swapped.More, swapped.Approval = json.RawMessage(more), first.ID
		if second := asked(swapped); second.ID == first.ID {
			t.Errorf("the answer to %s counts for %s", call.More, more)
		}
	}
	if calls.Load() != 0 {
		t.Errorf("it ran %d times", calls.Load())
	}
	if r := b.Run(t.Context(), call); !r.OK() || calls.Load() != 1 {
		t.Errorf("what was approved did not run: %v", r.Error)
	}
}

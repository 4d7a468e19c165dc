package main

import (
	"encoding/json"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
)

func TestAnIdempotencyKeyOfOneEnvironmentIsNotReplayedInAnother(t *testing.T) {
	t.Parallel()
	w := newStagedWorkshop(t)
	in := func(environment string) *toolroom.Result {
		return w.Run(t.Context(), toolroom.Call{Tool: "fn:speak", Arguments: json.RawMessage(`{}`), Environment: environment, IdempotencyKey: "k1"})
	}
	if r := in(release.Test); r.Error != nil || string(r.Value) != `"woof"` {
		t.Fatalf("in test: %s, %v", r.Value, r.Error)
	}
	for _, prod := range []string{"", release.Prod} {
		if r := in(prod); toolroom.CodeOf(r.Err()) != toolroom.CodeConflict {
			t.Errorf("the key of a call in test, used in %q, gives %s, %v; want a conflict", prod, r.Value, r.Error)
		}
	}
	if r := in(release.Test); r.Error != nil || string(r.Value) != `"woof"` {
		t.Errorf("again in test: %s, %v", r.Value, r.Error)
	}
}

func TestAnApprovalOfOneEnvironmentDoesNotServeAnother(t *testing.T) {
	t.Parallel()
	for _, scope := range []toolroom.ApprovalScope{toolroom.ScopeOnce, toolroom.ScopeCall} {
		t.Run(string(scope), func(t *testing.T) {
			t.Parallel()
			w := newWorkshop(t, "tools: {confirm: ['fn.*']}\n")
			if _, err := w.push("speak.py", speakSource("moo", "old")); err != nil {
				t.Fatal(err)
			}
			w.release("fn:speak", release.Prod, 1)
			w.release("fn:speak", release.Test, 1)
			ann := toolroom.Identity{Subject: "ann"}
			in := func(environment, approval string) *toolroom.Result {
				return w.Run(t.Context(), toolroom.Call{Tool: "fn:speak", Arguments: json.RawMessage(`{}`), Environment: environment, Identity: ann, Session: "s", NoWait: true, Approval: approval})
			}
			asked := in(release.Test, "")
			if toolroom.CodeOf(asked.Err()) != toolroom.CodeApprovalRequired {
				t.Fatalf("in test: %s, %v", asked.Value, asked.Error)
			}
			open, err := w.Parts().Approvals.List(t.Context(), toolroom.ApprovalPending)
			if err != nil || len(open) != 1 {
				t.Fatalf("open questions: %v, %v", open, err)
			}
			id := open[0].ID
			if _, err := w.Parts().Approvals.Answer(t.Context(), id, toolroom.Answer{Approve: true, Scope: scope, By: "local"}); err != nil {
				t.Fatal(err)
			}
			for _, prod := range []string{"", release.Prod} {
				if r := in(prod, id); toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired {
					t.Errorf("the approval of a call in test, used in %q, gives %s, %v; want another question", prod, r.Value, r.Error)
				}
			}
			if r := in(release.Test, id); r.Error != nil {
				t.Errorf("in test, approved: %v", r.Error)
			}
		})
	}
}

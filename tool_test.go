package toolroom

import (
	"testing"
)

func TestHintsHaveTheDefaultsOfMCP(t *testing.T) {
	t.Parallel()
	yes, no := new(bool), new(bool)
	*yes = true
	for _, tt := range []struct {
		name                                         string
		hints                                        Hints
		readOnly, destructive, idempotent, openWorld bool
		guarantee                                    Guarantee
	}{
		{"nothing said", Hints{}, false, true, false, true, GuaranteeNever},
		{"read-only", Hints{ReadOnly: yes}, true, false, false, true, GuaranteeSafe},
		{"not read-only", Hints{ReadOnly: no}, false, true, false, true, GuaranteeNever},
		{"not destructive", Hints{Destructive: no}, false, false, false, true, GuaranteeNever},
		{"idempotent", Hints{Idempotent: yes}, false, true, true, true, GuaranteeSafe},
		{"closed world", Hints{OpenWorld: no}, false, true, false, false, GuaranteeNever},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := tt.hints
			if h.IsReadOnly() != tt.readOnly || h.IsDestructive() != tt.destructive || h.IsIdempotent() != tt.idempotent || h.IsOpenWorld() != tt.openWorld {
				t.Errorf("read-only %v, destructive %v, idempotent %v, open world %v", h.IsReadOnly(), h.IsDestructive(), h.IsIdempotent(), h.IsOpenWorld())
			}
			if got := (&Tool{Hints: h}).RepeatGuarantee(); got != tt.guarantee {
				t.Errorf("guarantee %q, want %q", got, tt.guarantee)
			}
			if got := (&Tool{Hints: h, Guarantee: GuaranteeKeyed}).RepeatGuarantee(); got != GuaranteeKeyed {
				t.Errorf("a stated guarantee became %q", got)
			}
		})
	}
}

func TestStateIsKeptPerSubject(t *testing.T) {
	t.Parallel()
	if got := (Identity{Agent: "fast"}).Key(); got != "local" {
		t.Errorf("the operator's key is %q", got)
	}
	ann := Identity{Subject: "ann", Agent: "fast"}
	if ann.Key() != "ann" || ann.String() != "ann/fast" {
		t.Errorf("key %q, text %q", ann.Key(), ann)
	}
}

func TestOnlyDoneAndErrorEndACall(t *testing.T) {
	t.Parallel()
	for kind, final := range map[EventKind]bool{
		EventCalled: false, EventProgress: false, EventChunk: false, EventLog: false, EventApproval: false,
		EventDone: true, EventError: true,
	} {
		if e := (Event{Kind: kind}); e.Final() != final {
			t.Errorf("%s: final %v", kind, e.Final())
		}
	}
}

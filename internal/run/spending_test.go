package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

func TestACallThatSpendsTooMuchIsAskedAboutOrDeniedAndTheReceiptSaysSo(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	rule := policy.SpendingRule{
		Name: "policy.spending[0]", Selects: func(string) bool { return true }, Unit: "EUR", Window: time.Hour,
		ConfirmAbove: 20e6, DenyTotal: 50e6,
	}
	b := newBench(t, func(o *run.Options) {
		o.Spending = &policy.SpendingLedger{Store: store, Rules: func() []policy.SpendingRule { return []policy.SpendingRule{rule} }}
	})
	pay := tool("shop:pay")
	pay.Effects = []toolroom.Effect{{Kind: toolroom.EffectSpend, Target: "{amount} EUR"}}
	b.add(pay, value("1"))
	b.add(tool("shop:look"), value("1"))
	for _, step := range []struct {
		tool, amount string
		want         toolroom.Code
	}{
		{"shop:pay", "20", ""},
		{"shop:pay", "21", toolroom.CodeApprovalRequired}, // and nothing is spent by it
		{"shop:pay", "20", ""},
		{"shop:pay", "11", toolroom.CodeDenied},
		{"shop:pay", "10", ""},
		{"shop:pay", "-10", toolroom.CodeDenied},
		{"shop:look", "99", ""},
	} {
		r := b.Run(t.Context(), toolroom.Call{Tool: step.tool, Arguments: json.RawMessage(`{"amount": ` + step.amount + `}`)})
		if got := toolroom.CodeOf(r.Err()); got != step.want {
			t.Errorf("%s of %s: %q (%v), want %q", step.tool, step.amount, got, r.Err(), step.want)
		}
	}
	receipt := b.receipts.list[3]
	layers := receipt.Layers
	if receipt.Decision != toolroom.VerdictDeny || len(layers) == 0 || layers[len(layers)-1].Layer != policy.SpendingLayer || len(receipt.Expected) == 0 || receipt.Expected[0].Target != "11 EUR" {
		t.Errorf("the receipt says %+v", receipt)
	}
}

func TestACallThatHasNotReachedItsToolHasSpentNothing(t *testing.T) {
	t.Parallel()
	refused := toolroom.Errorf(toolroom.CodeInvalidArguments, "so it says")
	for name, tt := range map[string]struct {
		handler gofunc.Handler
		full    bool
		left    bool
	}{
		"it was never sent": {handler: func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Unsent: true}, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "no way there")
		}, left: true},
		"its receipt could not be promised": {handler: value("1"), full: true, left: true},
		"it worked":                         {handler: value("1")},
		"it worked, whatever its source says": {handler: func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Unsent: true}, nil
		}},
		"it failed": {handler: func(context.Context, *source.Request) (*source.Output, error) {
			return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "lost on the way back")
		}},
		"the tool says that nothing was done": {handler: func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Effects: toolroom.EffectsNone}, refused
		}},
		"it panicked": {handler: func(context.Context, *source.Request) (*source.Output, error) { panic("boom") }},
		"one of its attempts was sent": {handler: func() gofunc.Handler {
			attempts := 0
			return func(context.Context, *source.Request) (*source.Output, error) {
				attempts++
				e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "attempt %d", attempts)
				e.Retryable = true
				return &source.Output{Unsent: attempts > 1}, e
			}
		}()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			b := newBench(t, func(o *run.Options) {
				o.Limits.Retry = run.RetryLimits{Attempts: 2, Base: time.Millisecond}
				o.Spending = &policy.SpendingLedger{Store: store, Rules: func() []policy.SpendingRule {
					return []policy.SpendingRule{{Name: "r", Selects: func(string) bool { return true }, Unit: "EUR", Window: time.Hour, DenyTotal: 50e6}}
				}}
				o.MustRecord = func(*toolroom.Tool) bool { return true }
			})
			if tt.full {
				b.receipts.unpromised = errors.New("the disk is full")
			}
			pay := tool("shop:pay")
			pay.Effects = []toolroom.Effect{{Kind: toolroom.EffectSpend, Target: "20 EUR"}}
			pay.Guarantee = toolroom.GuaranteeSafe
			b.add(pay, tt.handler)
			b.Run(t.Context(), toolroom.Call{Tool: "shop:pay"})
			spent, err := store.Spent(t.Context(), "", "EUR", time.Time{})
			if err != nil || (spent["shop:pay"] == 0) != tt.left {
				t.Errorf("%v is spent, %v", spent, err)
			}
		})
	}
}

func TestAGrantDoesNotCoverASumThatNeedsAPerson(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "t.db"))
	b := newBench(t, confirmAll(t, store), func(o *run.Options) {
		rule := policy.SpendingRule{Name: "policy.spending[0]", Selects: func(string) bool { return true }, Unit: "EUR", Window: time.Hour, ConfirmAbove: 20e6}
		o.Spending = &policy.SpendingLedger{Store: store, Rules: func() []policy.SpendingRule { return []policy.SpendingRule{rule} }}
	})
	pay := tool("shop:pay")
	pay.Effects = []toolroom.Effect{{Kind: toolroom.EffectSpend, Target: "{amount} EUR"}}
	b.add(pay, value("1"))
	call := toolroom.Call{Tool: "shop:pay", Arguments: json.RawMessage(`{"amount": 5}`), NoWait: true}
	if _, err := b.Approvals.Answer(t.Context(), b.Run(t.Context(), call).Error.Approval, toolroom.Answer{Approve: true, Scope: toolroom.ScopeAlways}); err != nil {
		t.Fatal(err)
	}
	b.Run(t.Context(), call)
	if r := b.Run(t.Context(), call); !r.OK() {
		t.Errorf("a sum that the grant covers: %v", r.Error)
	}
	call.Arguments = json.RawMessage(`{"amount": 21}`)
	r := b.Run(t.Context(), call)
	if rule := b.receipts.last().Rule; toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired || !strings.Contains(rule, "policy.spending[0]") || !strings.HasSuffix(rule, `; and tools.confirm[0]: "*"`) {
		t.Errorf("a larger sum: %v by %q", r.Error, rule)
	}
}

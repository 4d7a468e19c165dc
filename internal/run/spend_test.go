package run_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/spending"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

func TestACallThatSpendsTooMuchIsAskedAboutOrDeniedAndTheReceiptSaysSo(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	rule := spending.Rule{
		Name: "policy.spending[0]", Selects: func(string) bool { return true }, Unit: "EUR", Window: time.Hour,
		ConfirmAbove: 20e6, DenyTotal: 50e6,
	}
	b := newBench(t, func(o *run.Options) {
		o.Spending = &spending.Book{Store: store, Rules: func() []spending.Rule { return []spending.Rule{rule} }}
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
	if receipt.Decision != policy.Deny || len(layers) == 0 || layers[len(layers)-1].Layer != spending.Layer || len(receipt.Expected) == 0 || receipt.Expected[0].Target != "11 EUR" {
		t.Errorf("the receipt says %+v", receipt)
	}
}

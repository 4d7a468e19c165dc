package policy_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func book(t *testing.T, rules ...policy.SpendingRule) *policy.SpendingLedger {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for i := range rules {
		if rules[i].Selects == nil {
			rules[i].Selects = func(tool string) bool { return strings.HasPrefix(tool, "shop:") }
		}
		rules[i].Name, rules[i].Window = "rule", 24*time.Hour
	}
	return &policy.SpendingLedger{Store: store, Rules: func() []policy.SpendingRule { return rules }}
}

func spends(amounts ...string) []toolroom.Effect {
	var out []toolroom.Effect
	for _, a := range amounts {
		out = append(out, toolroom.Effect{Kind: toolroom.EffectSpend, Target: a})
	}
	return out
}

const euro = 1_000_000

func TestOneCallIsAskedAboutAndDeniedByItsAmount(t *testing.T) {
	t.Parallel()
	b := book(t, policy.SpendingRule{Unit: "EUR", ConfirmAbove: 20 * euro, DenyAbove: 100 * euro})
	for name, tt := range map[string]struct {
		tool  string
		would []toolroom.Effect
		want  toolroom.Verdict // empty: no rule is about it
	}{
		"little":                          {"shop:pay", spends("20 EUR"), toolroom.VerdictAllow},
		"more":                            {"shop:pay", spends("20.000001 EUR"), toolroom.VerdictConfirm},
		"more than there may be":          {"shop:pay", spends("100.01 EUR"), toolroom.VerdictDeny},
		"in pieces":                       {"shop:pay", spends("60 EUR", "60 EUR"), toolroom.VerdictDeny},
		"not known":                       {"shop:pay", spends(""), toolroom.VerdictDeny},
		"a sign":                          {"shop:pay", spends("-5 EUR"), toolroom.VerdictDeny},
		"an exponent":                     {"shop:pay", spends("1e9 EUR"), toolroom.VerdictDeny},
		"another unit":                    {"shop:pay", spends("1 XAU"), toolroom.VerdictDeny},
		"the unit in lower case":          {"shop:pay", spends("101 eur"), toolroom.VerdictDeny},
		"no unit":                         {"shop:pay", spends("5"), toolroom.VerdictDeny},
		"beyond all numbers":              {"shop:pay", spends("99999999999999999999 EUR"), toolroom.VerdictDeny},
		"a sum beyond all numbers":        {"shop:pay", spends("5000 EUR", "9000000000000 EUR", "8999999999999 EUR"), toolroom.VerdictDeny},
		"nothing":                         {"shop:look", nil, ""},
		"a tool that no rule is about":    {"other:pay", spends("5000 EUR"), ""},
		"too small a part for millionths": {"shop:pay", spends("20.0000000001 EUR"), toolroom.VerdictConfirm},
	} {
		step, ok, err := b.Judge(t.Context(), tt.tool, "ann", tt.would, noon)
		if err != nil || ok != (tt.want != "") || step.Effect != tt.want {
			t.Errorf("%s: %q (%s), %v, want %q", name, step.Effect, step.Rule, err, tt.want)
		}
	}
}

func TestWhatWasSpentInTheWindowCounts(t *testing.T) {
	t.Parallel()
	b := book(t,
		policy.SpendingRule{Unit: "EUR", ConfirmTotal: 50 * euro, DenyTotal: 100 * euro},
		policy.SpendingRule{Unit: "EUR", DenyTotal: 150 * euro, All: true},
	)
	take := func(call, owner, amount string, at time.Time) error {
		return b.Reserve(t.Context(), call, "shop:pay", owner, spends(amount), at)
	}
	want := func(what, owner, amount string, at time.Time, effect toolroom.Verdict) {
		t.Helper()
		step, _, err := b.Judge(t.Context(), "shop:pay", owner, spends(amount), at)
		if err != nil || step.Effect != effect {
			t.Errorf("%s: %s (%s), %v, want %s", what, step.Effect, step.Rule, err, effect)
		}
	}
	if err := take("c1", "", "40 EUR", noon); err != nil {
		t.Fatal(err)
	}
	want("within", "", "10 EUR", noon, toolroom.VerdictAllow)
	want("asked", "", "11 EUR", noon, toolroom.VerdictConfirm)
	want("too much", "", "61 EUR", noon, toolroom.VerdictDeny)
	want("another caller begins at nothing", "bob", "50 EUR", noon, toolroom.VerdictAllow)
	want("what was spent is forgotten after the window", "", "50 EUR", noon.Add(25*time.Hour), toolroom.VerdictAllow)
	if err := take("c2", "ann", "90 EUR", noon); err != nil {
		t.Fatal(err)
	}
	want("all together", "bob", "30 EUR", noon, toolroom.VerdictDeny)
	// Judged while there was room, taken when there is none.
	if err := take("c3", "ann", "20 EUR", noon); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("more was taken than there may be: %v", err)
	}
}

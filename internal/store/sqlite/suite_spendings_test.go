package sqlite

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/policy"
)

var spendingTests = []test{
	{"what was spent is summed by owner, unit, tool and time, also after reopening", func(t *testing.T, d database) {
		s := d.open(t)
		spend := func(call, owner, tool, amount string, at time.Time) {
			must(t, s.Spend(t.Context(), []policy.SpendingEntry{entry(call, owner, tool, amount, at)}, yes, time.Time{}))
		}
		spend("c1", "ann", "a:x", "1.5 EUR", start)
		spend("c2", "ann", "a:x", "2 EUR", start.Add(time.Hour))
		spend("c3", "ann", "a:y", "4 EUR", start.Add(time.Hour))
		spend("c4", "ann", "a:x", "8 USD", start)
		spend("c5", "bob", "a:x", "16 EUR", start)
		for name, s := range map[string]*Store{"same handle": s, "reopened": d.open(t)} {
			wantSpent(t, name, s, "ann", "EUR", time.Time{}, map[string]int64{"a:x": 3_500_000, "a:y": 4_000_000})
			wantSpent(t, name, s, "ann", "EUR", start, map[string]int64{"a:x": 2_000_000, "a:y": 4_000_000})
			wantSpent(t, name, s, "", "EUR", time.Time{}, map[string]int64{"a:x": 19_500_000, "a:y": 4_000_000})
			wantSpent(t, name, s, "eve", "EUR", time.Time{}, map[string]int64{})
		}
		must(t, s.Spend(t.Context(), nil, yes, start.Add(time.Minute)))
		wantSpent(t, "the old ones are removed", s, "", "EUR", time.Time{}, map[string]int64{"a:x": 2_000_000, "a:y": 4_000_000})
	}},
	{"a sum that is too large stays the largest", func(t *testing.T, d database) {
		s := d.open(t)
		for _, call := range []string{"c1", "c2", "c3"} {
			must(t, s.Spend(t.Context(), []policy.SpendingEntry{entry(call, "ann", "a:x", "9000000000000 EUR", start)}, yes, time.Time{}))
		}
		wantSpent(t, "the sum", s, "ann", "EUR", time.Time{}, map[string]int64{"a:x": math.MaxInt64})
	}},
	{"a call that spends again counts once, and what it did not spend is taken back", func(t *testing.T, d database) {
		s := d.open(t)
		spend := func(call, amount string, had int64) {
			must(t, s.Spend(t.Context(), []policy.SpendingEntry{entry(call, "ann", "a:x", amount, start)}, func(sums policy.SpendingSums) error {
				if have, err := sums("ann", "EUR", time.Time{}); err != nil || have["a:x"] != had {
					t.Errorf("%s of %s sees %v, %v", call, amount, have, err)
				}
				return nil
			}, time.Time{}))
		}
		spend("c1", "1 EUR", 0)
		spend("c1", "2 EUR", 0)
		spend("c2", "4 EUR", 2_000_000)
		must(t, s.Unspend(t.Context(), []string{"c2", "c3"}))
		wantSpent(t, "c1 alone", s, "ann", "EUR", time.Time{}, map[string]int64{"a:x": 2_000_000})
	}},
	{"of many that spend at once only so many do as the check permits", func(t *testing.T, d database) {
		full := errors.New("full")
		wins := race(t, d, func(s *Store, i int) bool {
			return s.Spend(t.Context(), []policy.SpendingEntry{entry(string(rune('a'+i)), "ann", "a:x", "1 EUR", start)}, func(sums policy.SpendingSums) error {
				have, err := sums("ann", "EUR", time.Time{})
				if err == nil && have["a:x"] >= 2_000_000 {
					err = full
				}
				return err
			}, time.Time{}) == nil
		})
		if wins != 2 {
			t.Errorf("%d spent, and there was enough for 2", wins)
		}
	}},
}

func yes(policy.SpendingSums) error { return nil }

func entry(call, owner, tool, amount string, at time.Time) policy.SpendingEntry {
	parsed, _ := effects.ParseAmount(amount)
	return policy.SpendingEntry{Call: call, Owner: owner, Tool: tool, Amount: parsed, Time: at}
}

func wantSpent(t *testing.T, what string, s *Store, owner, unit string, since time.Time, want map[string]int64) {
	t.Helper()
	got, err := s.Spent(t.Context(), owner, unit, since)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s, %s of %s (-want +got):\n%s", what, unit, owner, diff)
	}
}

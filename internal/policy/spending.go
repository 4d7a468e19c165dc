package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

// SpendingRule limits what calls of some tools spend in one unit. A limit of zero does not apply.
type SpendingRule struct {
	// Name is the key of the rule in the config.
	Name string
	// Selects reports whether the rule applies to a tool, given by its id.
	Selects func(tool string) bool
	Unit    string
	// ConfirmAbove and DenyAbove limit one call.
	ConfirmAbove, DenyAbove int64 // millionths
	// ConfirmTotal and DenyTotal limit the sum of all calls within Window.
	ConfirmTotal, DenyTotal int64
	Window                  time.Duration
	// All counts the calls of all callers together, not only those of one caller.
	All bool
}

// SpendingEntry is what one call spends.
type SpendingEntry struct {
	Call, Owner, Tool string
	effects.Amount
	Time time.Time
}

// SpendingStore stores what calls have spent. It is safe for concurrent use, also by several
// processes on one store.
type SpendingStore interface {
	// Spent returns how much of a unit an owner has spent since a time, by tool. An empty owner
	// means all owners.
	Spent(ctx context.Context, owner, unit string, since time.Time) (map[string]int64, error)
	// Spend stores entries durably, unless check returns an error; check sees the sums at that
	// moment. An entry replaces one with the same Call. Spend removes entries that are older
	// than before.
	Spend(ctx context.Context, entries []SpendingEntry, check func(sums SpendingSums) error, before time.Time) error
	// Unspend removes the entries with these Calls. It is no error if one does not exist.
	Unspend(ctx context.Context, calls []string) error
}

// SpendingSums is [SpendingStore.Spent] in a transaction.
type SpendingSums func(owner, unit string, since time.Time) (map[string]int64, error)

// SpendingLedger applies the limits to what calls spend, which is an effect that their tools
// declare. Judge is part of the decision on a call. Reserve records what the call spends before
// it runs.
type SpendingLedger struct {
	Store SpendingStore
	Rules func() []SpendingRule
}

// SpendingLayer is the name of the step that a ledger adds to decisions.
const SpendingLayer = "policy.spending"

// Judge returns the step of the rules for a call with these predicted effects. ok is false if no
// rule applies to what it spends.
func (l *SpendingLedger) Judge(ctx context.Context, tool, owner string, predicted []toolroom.Effect, now time.Time) (step toolroom.PolicyStep, ok bool, err error) {
	sums := func(owner, unit string, since time.Time) (map[string]int64, error) {
		return l.Store.Spent(ctx, owner, unit, since)
	}
	return l.judge(sums, tool, accountKey(owner), predicted, now)
}

// accountKey returns the owner in the store. It is never empty, because that means all owners.
func accountKey(owner string) string { return "of " + owner }

// Reserve records what the call spends. If other calls have spent so much in the meantime that
// the rules deny the call, the error has the code denied.
func (l *SpendingLedger) Reserve(ctx context.Context, call, tool, owner string, predicted []toolroom.Effect, now time.Time) error {
	owner = accountKey(owner)
	var entries []SpendingEntry
	keep := time.Duration(0)
	for _, r := range l.Rules() {
		keep = max(keep, r.Window)
	}
	for i, e := range predicted {
		if amount, ok := effects.ParseAmount(e.Target); ok && e.Kind == toolroom.EffectSpend {
			entries = append(entries, SpendingEntry{Call: entryID(call, i), Owner: owner, Tool: tool, Amount: amount, Time: now})
		}
	}
	if len(entries) == 0 || keep == 0 {
		return nil
	}
	return l.Store.Spend(ctx, entries, func(sums SpendingSums) error {
		step, _, err := l.judge(sums, tool, owner, predicted, now)
		if err == nil && step.Effect == toolroom.VerdictDeny {
			err = toolroom.Errorf(toolroom.CodeDenied, "%s", step.Rule).WithHint("%s", step.Hint)
		}
		return err
	}, now.Add(-keep))
}

// Refund removes what Reserve recorded for a call with these predicted effects.
func (l *SpendingLedger) Refund(ctx context.Context, call string, predicted []toolroom.Effect) error {
	var entries []string
	for i, e := range predicted {
		if e.Kind == toolroom.EffectSpend {
			entries = append(entries, entryID(call, i))
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return l.Store.Unspend(ctx, entries)
}

// entryID returns the id of the entry for one effect of a call.
func entryID(call string, effect int) string { return fmt.Sprintf("%s#%d", call, effect) }

func (l *SpendingLedger) judge(sums SpendingSums, tool, owner string, predicted []toolroom.Effect, now time.Time) (toolroom.PolicyStep, bool, error) {
	amounts, unknown := sumAmounts(predicted)
	if len(amounts) == 0 && !unknown {
		return toolroom.PolicyStep{}, false, nil
	}
	var out toolroom.PolicyStep
	bounded := map[string]bool{}
	var selected []SpendingRule
	for _, r := range l.Rules() {
		if r.Selects(tool) {
			selected = append(selected, r)
			bounded[r.Unit] = true
		}
	}
	if len(selected) == 0 {
		return toolroom.PolicyStep{}, false, nil
	}
	for unit := range amounts {
		// A caller that can choose the unit must not be able to choose one without limits.
		unknown = unknown || !bounded[unit]
	}
	for _, r := range selected {
		step, err := r.judge(sums, owner, amounts[r.Unit], unknown, now)
		if err != nil {
			return out, false, err
		}
		if out.Layer == "" || stricter(step.Effect, out.Effect) {
			out = step
		}
	}
	return out, true, nil
}

// sumAmounts returns the sum of what is spent, by unit. unknown means that a part of it is not
// known.
func sumAmounts(predicted []toolroom.Effect) (amounts map[string]int64, unknown bool) {
	amounts = map[string]int64{}
	for _, e := range predicted {
		if e.Kind != toolroom.EffectSpend {
			continue
		}
		amount, ok := effects.ParseAmount(e.Target)
		if !ok {
			unknown = true
			continue
		}
		amounts[amount.Unit] = effects.AddMicros(amounts[amount.Unit], amount.Micros)
	}
	return amounts, unknown
}

func (r SpendingRule) judge(sums SpendingSums, owner string, amount int64, unknown bool, now time.Time) (toolroom.PolicyStep, error) {
	step := toolroom.PolicyStep{Layer: SpendingLayer, Effect: toolroom.VerdictAllow, Rule: r.Name}
	say := func(effect toolroom.Verdict, form string, args ...any) toolroom.PolicyStep {
		step.Effect, step.Rule = effect, r.Name+": "+fmt.Sprintf(form, args...)
		step.Hint = "spend less, or have a person change the limit"
		return step
	}
	if unknown {
		switch {
		case r.DenyAbove > 0 || r.DenyTotal > 0:
			return say(toolroom.VerdictDeny, "how much it spends is not known, or in a unit without a limit"), nil
		case r.ConfirmAbove > 0 || r.ConfirmTotal > 0:
			return say(toolroom.VerdictConfirm, "how much it spends is not known, or in a unit without a limit"), nil
		}
	}
	spent := int64(0)
	if r.ConfirmTotal > 0 || r.DenyTotal > 0 {
		if r.All {
			owner = ""
		}
		byTool, err := sums(owner, r.Unit, now.Add(-r.Window))
		if err != nil {
			return step, err
		}
		for tool, n := range byTool {
			if r.Selects(tool) {
				spent = effects.AddMicros(spent, n)
			}
		}
	}
	total := effects.AddMicros(spent, amount)
	switch {
	case amount == 0:
	case r.DenyAbove > 0 && amount > r.DenyAbove:
		return say(toolroom.VerdictDeny, "it spends %s, and %s is the most", r.format(amount), r.format(r.DenyAbove)), nil
	case r.DenyTotal > 0 && total > r.DenyTotal:
		return say(toolroom.VerdictDeny, "with it %s would be spent in %s, and %s is the most", r.format(total), formatWindow(r.Window), r.format(r.DenyTotal)), nil
	case r.ConfirmAbove > 0 && amount > r.ConfirmAbove:
		return say(toolroom.VerdictConfirm, "it spends %s, more than %s", r.format(amount), r.format(r.ConfirmAbove)), nil
	case r.ConfirmTotal > 0 && total > r.ConfirmTotal:
		return say(toolroom.VerdictConfirm, "with it %s would be spent in %s, more than %s", r.format(total), formatWindow(r.Window), r.format(r.ConfirmTotal)), nil
	}
	return step, nil
}

func (r SpendingRule) format(micros int64) string {
	return effects.Amount{Micros: micros, Unit: r.Unit}.String()
}

// formatWindow formats a duration without zero units, such as 24h.
func formatWindow(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(text, zero); ok {
			text = cut + zero[:1]
		}
	}
	return text
}

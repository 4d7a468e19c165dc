package policy

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

// SpendingRule bounds what calls of some tools spend in one unit. Zero leaves a bound
// out.
type SpendingRule struct {
	// Name says where the rule stands.
	Name string
	// Selects tells which tools, by id, the rule is about.
	Selects func(tool string) bool
	Unit    string
	// ConfirmAbove and DenyAbove bound one call.
	ConfirmAbove, DenyAbove int64 // millionths
	// ConfirmTotal and DenyTotal bound what the calls of Window spend together.
	ConfirmTotal, DenyTotal int64
	Window                  time.Duration
	// All counts the calls of everybody together, in place of one caller's.
	All bool
}

// SpendingEntry is what one call spends.
type SpendingEntry struct {
	Call, Owner, Tool string
	effects.Amount
	Time time.Time
}

// SpendingStore keeps what has been spent. It is safe for concurrent use, also by several
// processes on one store.
type SpendingStore interface {
	// Spent sums what an owner has spent of a unit since a time, by tool; an empty
	// owner is everybody.
	Spent(ctx context.Context, owner, unit string, since time.Time) (map[string]int64, error)
	// Spend writes entries down, durably, unless check, which sees the sums as they
	// are at that moment, says no. An entry takes the place of one that has the same
	// Call. It removes what is older than before.
	Spend(ctx context.Context, entries []SpendingEntry, check func(sums SpendingSums) error, before time.Time) error
	// Unspend removes the entries with these Calls; those that are not there count
	// as removed.
	Unspend(ctx context.Context, calls []string) error
}

// SpendingSums is [SpendingStore.Spent] within a transaction.
type SpendingSums func(owner, unit string, since time.Time) (map[string]int64, error)

// SpendingBook holds calls to how much they may spend, which is an effect that their
// tools declare. Judge is asked when a call is decided upon, Take writes down what the
// call spends before it runs.
type SpendingBook struct {
	Store SpendingStore
	Rules func() []SpendingRule
}

// SpendingLayer is the name of the step that a book adds to decisions.
const SpendingLayer = "policy.spending"

// Judge says what the rules make of a call that would have these effects; false
// when it spends nothing that a rule is about.
func (b *SpendingBook) Judge(ctx context.Context, tool, owner string, would []toolroom.Effect, now time.Time) (step toolroom.PolicyStep, ok bool, err error) {
	sums := func(owner, unit string, since time.Time) (map[string]int64, error) {
		return b.Store.Spent(ctx, owner, unit, since)
	}
	return b.judge(sums, tool, account(owner), would, now)
}

// account keeps a caller without a name apart from everybody.
func account(owner string) string { return "of " + owner }

// Take writes down what the call spends. When other calls have spent so much in
// the meantime that the rules deny it, the error has code denied.
func (b *SpendingBook) Take(ctx context.Context, call, tool, owner string, would []toolroom.Effect, now time.Time) error {
	owner = account(owner)
	var entries []SpendingEntry
	keep := time.Duration(0)
	for _, r := range b.Rules() {
		keep = max(keep, r.Window)
	}
	for i, e := range would {
		if amount, ok := effects.ParseAmount(e.Target); ok && e.Kind == toolroom.EffectSpend {
			entries = append(entries, SpendingEntry{Call: entryOf(call, i), Owner: owner, Tool: tool, Amount: amount, Time: now})
		}
	}
	if len(entries) == 0 || keep == 0 {
		return nil
	}
	return b.Store.Spend(ctx, entries, func(sums SpendingSums) error {
		step, _, err := b.judge(sums, tool, owner, would, now)
		if err == nil && step.Effect == toolroom.VerdictDeny {
			err = toolroom.Errorf(toolroom.CodeDenied, "%s", step.Rule).WithHint("%s", step.Hint)
		}
		return err
	}, now.Add(-keep))
}

// Return takes back what a call that had these effects was to spend.
func (b *SpendingBook) Return(ctx context.Context, call string, would []toolroom.Effect) error {
	var entries []string
	for i, e := range would {
		if e.Kind == toolroom.EffectSpend {
			entries = append(entries, entryOf(call, i))
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return b.Store.Unspend(ctx, entries)
}

// entryOf names the entry of one effect of a call.
func entryOf(call string, effect int) string { return fmt.Sprintf("%s#%d", call, effect) }

func (b *SpendingBook) judge(sums SpendingSums, tool, owner string, would []toolroom.Effect, now time.Time) (toolroom.PolicyStep, bool, error) {
	amounts, unknown := amountsOf(would)
	if len(amounts) == 0 && !unknown {
		return toolroom.PolicyStep{}, false, nil
	}
	var out toolroom.PolicyStep
	bounded := map[string]bool{}
	var selected []SpendingRule
	for _, r := range b.Rules() {
		if r.Selects(tool) {
			selected = append(selected, r)
			bounded[r.Unit] = true
		}
	}
	if len(selected) == 0 {
		return toolroom.PolicyStep{}, false, nil
	}
	for unit := range amounts {
		// Who may choose the unit must not choose one without bounds.
		unknown = unknown || !bounded[unit]
	}
	for _, r := range selected {
		step, err := r.judge(sums, owner, amounts[r.Unit], unknown, now)
		if err != nil {
			return out, false, err
		}
		if out.Layer == "" || narrower(step.Effect, out.Effect) {
			out = step
		}
	}
	return out, true, nil
}

// amountsOf sums what is spent, by unit; unknown says that some of it is not known.
func amountsOf(would []toolroom.Effect) (amounts map[string]int64, unknown bool) {
	amounts = map[string]int64{}
	for _, e := range would {
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
		return say(toolroom.VerdictDeny, "it spends %s, and %s is the most", r.text(amount), r.text(r.DenyAbove)), nil
	case r.DenyTotal > 0 && total > r.DenyTotal:
		return say(toolroom.VerdictDeny, "with it %s would be spent in %s, and %s is the most", r.text(total), window(r.Window), r.text(r.DenyTotal)), nil
	case r.ConfirmAbove > 0 && amount > r.ConfirmAbove:
		return say(toolroom.VerdictConfirm, "it spends %s, more than %s", r.text(amount), r.text(r.ConfirmAbove)), nil
	case r.ConfirmTotal > 0 && total > r.ConfirmTotal:
		return say(toolroom.VerdictConfirm, "with it %s would be spent in %s, more than %s", r.text(total), window(r.Window), r.text(r.ConfirmTotal)), nil
	}
	return step, nil
}

func (r SpendingRule) text(micros int64) string {
	return effects.Amount{Micros: micros, Unit: r.Unit}.String()
}

// window is a duration without its zeros: 24h.
func window(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(text, zero); ok {
			text = cut + zero[:1]
		}
	}
	return text
}

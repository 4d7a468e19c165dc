package cedar

import (
	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
)

// addSpending adds what a call spends to record: 0 without a unit if it spends nothing. If the
// amount is unknown or in more than one unit, it is unrepresentable.
func addSpending(record cedar.RecordMap, predicted []toolroom.Effect) {
	var sum effects.Amount
	first := true
	for _, e := range predicted {
		if e.Kind != toolroom.EffectSpend {
			continue
		}
		amount, ok := effects.ParseAmount(e.Target)
		if !ok || !first && sum.Unit != amount.Unit {
			record["amount"], record["unit"] = unrepresentable, unrepresentable
			return
		}
		first = false
		sum = effects.Amount{Micros: effects.AddMicros(sum.Micros, amount.Micros), Unit: amount.Unit}
	}
	// Cedar has four digits after the point: round up.
	value, err := types.NewDecimal(effects.AddMicros(sum.Micros, 99)/100, -4)
	if err != nil {
		record["amount"], record["unit"] = unrepresentable, unrepresentable
		return
	}
	record["amount"], record["unit"] = value, cedar.String(sum.Unit)
}

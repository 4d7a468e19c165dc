package cedar

import (
	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolroom/toolroom"
	known "github.com/toolroom/toolroom/internal/effects"
)

// spent adds what a call spends: 0 of no unit where it spends nothing. Where it
// is not known, or in more than one unit, it is formless.
func spent(record cedar.RecordMap, effects []toolroom.Effect) {
	var sum known.Amount
	first := true
	for _, e := range effects {
		if e.Kind != toolroom.EffectSpend {
			continue
		}
		amount, ok := known.ParseAmount(e.Target)
		if !ok || !first && sum.Unit != amount.Unit {
			record["amount"], record["unit"] = formless, formless
			return
		}
		first = false
		sum = known.Amount{Micros: known.AddMicros(sum.Micros, amount.Micros), Unit: amount.Unit}
	}
	// Cedar has four digits behind the point: in doubt more.
	value, err := types.NewDecimal(known.AddMicros(sum.Micros, 99)/100, -4)
	if err != nil {
		record["amount"], record["unit"] = formless, formless
		return
	}
	record["amount"], record["unit"] = value, cedar.String(sum.Unit)
}

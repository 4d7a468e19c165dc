package cedar

import (
	cedar "github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"github.com/toolroom/toolroom"
	known "github.com/toolroom/toolroom/internal/effects"
)

// spent adds what a call spends: 0 of no unit where it spends nothing. Where it
// is not known, or in more than one unit, it is left out as other effects are.
func spent(record cedar.RecordMap, effects []toolroom.Effect) {
	var sum known.Amount
	for i, e := range effects {
		if e.Kind != toolroom.EffectSpend {
			continue
		}
		amount, ok := known.ParseAmount(e.Target)
		if !ok || sum.Unit != "" && sum.Unit != amount.Unit && i > 0 {
			return
		}
		sum = known.Amount{Micros: sum.Micros + amount.Micros, Unit: amount.Unit}
	}
	// Cedar has four digits behind the point: in doubt more.
	value, err := types.NewDecimal((sum.Micros+99)/100, -4)
	if err != nil {
		return
	}
	record["amount"], record["unit"] = value, cedar.String(sum.Unit)
}

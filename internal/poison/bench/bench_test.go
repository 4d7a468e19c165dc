package bench_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/poison/bench"
)

func TestTheLinterKeepsItsPrecisionAndRecall(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]struct {
		measure                   func() (bench.Report, error)
		bad, benign               int
		leastPrecision, leastFind float64
	}{
		"own":      {bench.Own, 130, 310, 0.95, 0.85},
		"held out": {bench.HeldOut, 30, 30, 0.8, 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := set.measure()
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bad, %d benign, precision %.3f, recall %.3f\nmissed %q\nwrong %q", r.Bad, r.Benign, r.Precision, r.Recall, r.Missed, r.Wrong)
			for _, c := range r.Classes {
				t.Logf("%-7s %-32s %d of %d", c.Label, c.Name, c.Reported, c.Tools)
			}
			if r.Bad < set.bad || r.Benign < set.benign || r.Precision < set.leastPrecision || r.Recall < set.leastFind {
				t.Error("that is too little")
			}
		})
	}
}

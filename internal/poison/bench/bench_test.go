package bench_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/poison/bench"
)

func TestTheLinterKeepsItsPrecisionAndRecall(t *testing.T) {
	t.Parallel()
	r, err := bench.Own()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bad, %d benign, precision %.3f, recall %.3f\nmissed %q\nwrong %q", r.Bad, r.Benign, r.Precision, r.Recall, r.Missed, r.Wrong)
	for _, c := range r.Classes {
		t.Logf("%-7s %-32s %d of %d", c.Label, c.Name, c.Reported, c.Tools)
	}
	if r.Bad < 60 || r.Benign < 120 || r.Precision < 0.95 || r.Recall < 0.85 {
		t.Error("that is too little")
	}
}

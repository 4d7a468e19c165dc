package receipt_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

// samples is a Sampler of fixed samples.
type samples []receipt.Sample

func (s samples) ReceiptSamples(_ context.Context, _ toolroom.ReceiptQuery, see func(receipt.Sample) bool) error {
	for _, one := range s {
		if !see(one) {
			break
		}
	}
	return nil
}

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestStatsCountRatesAndQuantilesExactly(t *testing.T) {
	t.Parallel()
	var all samples
	for i := range 100 {
		one := receipt.Sample{Tool: "fn:a", Version: 1 + i%2, Started: noon.Add(time.Duration(i) * time.Second), Status: toolroom.StatusOK, Queue: time.Millisecond, Run: time.Duration(i+1) * time.Millisecond}
		if i%10 == 0 {
			one.Status = toolroom.StatusError
		}
		all = append(all, one)
	}
	all = append(all,
		receipt.Sample{Tool: "fn:a", Started: noon, Status: toolroom.StatusDenied},
		receipt.Sample{Tool: "fn:a", Started: noon, Status: toolroom.StatusError, Surface: receipt.SurfaceShadow})
	q := receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, Step: time.Minute, By: "version"}
	got, err := receipt.StatsOf(t.Context(), all, q, noon.Add(100*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if got.Total.Calls != 101 || *got.Total.Success != .9 || got.Total.PerSecond != 1.01 {
		t.Errorf("calls %d, success %v, per second %v", got.Total.Calls, *got.Total.Success, got.Total.PerSecond)
	}
	if r := got.Total.Run; !r.Exact || r.P50 != 50*time.Millisecond || r.P90 != 90*time.Millisecond || r.P99 != 99*time.Millisecond || r.Max != 100*time.Millisecond || r.Count != 100 {
		t.Errorf("run times %+v", r)
	}
	if got.Total.Queue.P50 != time.Millisecond {
		t.Errorf("queue times %+v", got.Total.Queue)
	}
	if len(got.Groups) != 3 || got.Groups[0].Calls != 50 {
		t.Errorf("groups %+v", got.Groups)
	}
	// The second step has lasted 40 s only, so its rate is 40 calls in 40 s.
	if len(got.Series) != 2 || got.Series[1].Calls != 40 || got.Series[1].PerSecond != 1 {
		t.Errorf("series %+v", got.Series)
	}
}

func TestQuantilesOfManyCallsAreStatedToBeEstimated(t *testing.T) {
	t.Parallel()
	var all samples
	const n = receipt.MaxExact + 1
	for i := range n {
		all = append(all, receipt.Sample{Started: noon, Run: time.Duration((i*7919)%n+1) * time.Microsecond})
	}
	got, err := receipt.StatsOf(t.Context(), all, receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}}, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	r := got.Total.Run
	if r.Exact || r.Error == 0 {
		t.Fatalf("%+v does not say that it is estimated", r)
	}
	for part, have := range map[float64]time.Duration{.5: r.P50, .9: r.P90, .99: r.P99} {
		want := part * n * 1000
		if off := math.Abs(float64(have)-want) / want; off > r.Error+1e-4 {
			t.Errorf("the quantile %v is %v, %.2f%% off", part, have, off*100)
		}
	}
}

func TestTooManyStepsAreRefused(t *testing.T) {
	t.Parallel()
	q := receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, Step: time.Second}
	if _, err := receipt.StatsOf(t.Context(), samples{}, q, noon.Add(24*time.Hour)); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("error %v", err)
	}
}

package receipt_test

import (
	"context"
	"errors"
	"math"
	"slices"
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

func TestQueriesThatCannotBeAnsweredAreRefused(t *testing.T) {
	t.Parallel()
	until := noon.Add(receipt.MaxSteps * time.Second)
	for name, tt := range map[string]struct {
		q      receipt.StatsQuery
		series int // -1 if it is refused
	}{
		"no step":          {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}}, 0},
		"one step":         {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, Step: time.Hour}, 1},
		"most steps":       {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, Step: time.Second}, receipt.MaxSteps},
		"a part of one":    {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon.Add(1)}, Step: time.Second}, receipt.MaxSteps},
		"one more":         {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon.Add(-1)}, Step: time.Second}, -1},
		"far more":         {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, Step: 1}, -1},
		"backwards":        {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, Step: -time.Second}, -1},
		"no beginning":     {receipt.StatsQuery{}, -1},
		"no time":          {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: until}}, -1},
		"an earlier end":   {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon, Until: noon.Add(-time.Hour)}}, -1},
		"an unknown group": {receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, By: "moon"}, -1},
	} {
		got, err := receipt.StatsOf(t.Context(), samples{}, tt.q, until)
		if tt.series < 0 {
			if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || len(got.Series) != tt.series {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// asked is a Sampler that fails and keeps the query.
type asked struct {
	q   toolroom.ReceiptQuery
	err error
}

func (a *asked) ReceiptSamples(_ context.Context, q toolroom.ReceiptQuery, _ func(receipt.Sample) bool) error {
	a.q = q
	return a.err
}

func TestStatsCoverAllCallsUpToNow(t *testing.T) {
	t.Parallel()
	broken := errors.New("the store is broken")
	a := &asked{err: broken}
	q := receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon, Until: noon.Add(time.Hour), Limit: 3, Tool: "fn:a"}}
	if _, err := receipt.StatsOf(t.Context(), a, q, noon.Add(time.Minute)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if a.q.Limit != 0 || a.q.Tool != "fn:a" || !a.q.Until.Equal(noon.Add(time.Minute)) {
		t.Errorf("asked for %+v", a.q)
	}
	a.err, q.Until = nil, noon.Add(time.Second)
	got, err := receipt.StatsOf(t.Context(), a, q, noon.Add(time.Minute))
	if err != nil || !a.q.Until.Equal(q.Until) || !got.Since.Equal(noon) || !got.Until.Equal(q.Until) {
		t.Errorf("%+v, %v", got, err)
	}
	if g := got.Total; g.Calls != 0 || g.Statuses == nil || g.Success != nil || g.PerSecond != 0 || !g.Run.Exact || g.Run.Count != 0 {
		t.Errorf("of no calls: %+v", g)
	}
}

func TestStatsAreGroupedAndPlacedInTime(t *testing.T) {
	t.Parallel()
	all := samples{
		{Tool: "fn:b", Subject: "ann", Environment: "prod", Surface: "mcp", Started: noon.Add(90 * time.Second), Status: toolroom.StatusTimeout, Queue: 5, Run: 30},
		{Tool: "fn:a", Version: 2, Subject: "bob", Environment: "dev", Surface: receipt.SurfaceTest, Started: noon},
		{Tool: "fn:a", Version: 2, Subject: "bob", Environment: "dev", Surface: "cli", Started: noon, Status: toolroom.StatusOK, Queue: 1, Run: 10},
		{Tool: "fn:a", Version: 2, Subject: "bob", Environment: "dev", Surface: "cli", Started: noon.Add(119 * time.Second), Status: toolroom.StatusError, Queue: 3, Run: 20},
		{Tool: "fn:c", Subject: "cat", Environment: "test", Surface: "http", Started: noon.Add(time.Hour), Status: toolroom.StatusDenied},
	}
	for by, want := range map[string][]string{
		"tool": {"fn:a", "fn:b", "fn:c"}, "version": {"fn:a@2", "fn:b", "fn:c"}, "environment": {"dev", "prod", "test"},
		"caller": {"bob", "ann", "cat"}, "via": {"cli", "http", "mcp"},
	} {
		q := receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}, By: by, Step: time.Minute}
		got, err := receipt.StatsOf(t.Context(), all, q, noon.Add(2*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		var keys []string
		for _, g := range got.Groups {
			keys = append(keys, g.Key)
		}
		if !slices.Equal(keys, want) || got.Groups[0].Calls != 2 {
			t.Errorf("by %s: %v", by, got.Groups)
		}
		// What began after the end, by another clock, is in the last step.
		if len(got.Series) != 2 || got.Series[0].Calls != 1 || got.Series[1].Calls != 3 || !got.Series[0].Time.Equal(noon) || !got.Series[1].Time.Equal(noon.Add(time.Minute)) {
			t.Errorf("%+v", got.Series)
		}
		if g := got.Total; g.Calls != 4 || *g.Success != 1./3 || g.Run.Mean != 20 || g.Run.P50 != 20 || g.Queue.Mean != 3 || g.Queue.Max != 5 || g.Statuses[toolroom.StatusDenied] != 1 {
			t.Errorf("%+v", g)
		}
	}
	// A surface that is asked for is not left out.
	q := receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon, Surface: receipt.SurfaceTest}}
	got, err := receipt.StatsOf(t.Context(), all[1:2], q, noon.Add(2*time.Minute))
	if err != nil || got.Total.Calls != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDurationsStayExactUpToTheirLimit(t *testing.T) {
	t.Parallel()
	for extra, exact := range map[int]bool{0: true, 1: false, 1000: false} {
		var all samples
		for i := range receipt.MaxExact + extra {
			// The queue is mostly empty: those of zero share a bucket.
			all = append(all, receipt.Sample{Started: noon, Run: time.Second, Queue: time.Duration(i % 100 / 99)})
		}
		got, err := receipt.StatsOf(t.Context(), all, receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}}, noon.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		run, queue := got.Total.Run, got.Total.Queue
		if run.Exact != exact || (run.Error == 0) != exact || run.Count != int64(receipt.MaxExact+extra) || run.Mean != time.Second || run.Max != time.Second ||
			run.P50 < 980*time.Millisecond || run.P99 > time.Second || queue.P50 != 0 || queue.P90 != 0 || queue.Max != 1 {
			t.Errorf("%d more: run %+v, queue %+v", extra, run, queue)
		}
	}
}

func TestDurationsBeyondTheLimitCount(t *testing.T) {
	t.Parallel()
	var all samples
	for i := range 3 * receipt.MaxExact {
		run := time.Second
		if i > receipt.MaxExact {
			run = time.Millisecond
		}
		all = append(all, receipt.Sample{Started: noon, Run: run})
	}
	got, err := receipt.StatsOf(t.Context(), all, receipt.StatsQuery{ReceiptQuery: toolroom.ReceiptQuery{Since: noon}}, noon.Add(time.Hour))
	if err != nil || got.Total.Run.P50 > 2*time.Millisecond || got.Total.Run.P90 < 900*time.Millisecond {
		t.Errorf("%+v, %v", got.Total.Run, err)
	}
}

func TestStepsAreRoundAndFew(t *testing.T) {
	t.Parallel()
	for all, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 3 * time.Minute: time.Second, 3*time.Minute + 1: 10 * time.Second, time.Hour: time.Minute,
		24 * time.Hour: 10 * time.Minute, 180 * 24 * time.Hour: 24 * time.Hour,
	} {
		if got := receipt.StepFor(all); got != want {
			t.Errorf("%v in steps of %v, want %v", all, got, want)
		}
	}
	for _, all := range []time.Duration{180*24*time.Hour + 1, 1000 * 24 * time.Hour} {
		step := receipt.StepFor(all)
		if n := (all + step - 1) / step; n > 180 || n < 179 {
			t.Errorf("%v in %d steps", all, n)
		}
	}
}

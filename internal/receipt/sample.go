package receipt

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/toolroom/toolroom"
)

// Sample holds the fields of a receipt that metrics need.
type Sample struct {
	Seq                                       int64
	Call, Tool, Subject, Surface, Environment string
	Version                                   int
	Status                                    toolroom.Status
	Code                                      toolroom.Code
	Started                                   time.Time
	// Queue is the time before the tool started, and Run the time that it ran; Run is zero
	// if it did not run.
	Queue, Run time.Duration
}

// Surfaces of receipts that metrics leave out: calls that test a version, and actions of
// people on tools.
const (
	SurfaceTest    = "test"
	SurfaceShadow  = "shadow"
	SurfaceRelease = "release"
	SurfaceAdmin   = "admin"
)

// OutsideMetrics reports whether metrics leave out the calls of a surface.
func OutsideMetrics(surface string) bool {
	return slices.Contains([]string{SurfaceTest, SurfaceShadow, SurfaceRelease, SurfaceAdmin, "replay"}, surface)
}

// StatsQuery asks for statistics of the calls that Query selects; Since and Until must be
// set. With a Step, they are also given for each step of time. By names what to group
// calls by, see Groupings; empty means nothing.
type StatsQuery struct {
	toolroom.ReceiptQuery
	Step time.Duration
	By   string
}

// MaxSteps is the maximum number of steps of one time series.
const MaxSteps = 2000

// Groupings returns what statistics can be grouped by.
func Groupings() []string { return []string{"tool", "version", "environment", "caller", "via"} }

// Stats are statistics of calls. Calls of the surfaces test, shadow, release and replay are
// left out, unless the query names the surface.
type Stats struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Total  Group     `json:"total"`
	Groups []Group   `json:"groups,omitempty"` // most calls first
	Series []Group   `json:"series,omitempty"` // by time, without gaps
}

// Group are the statistics of some calls.
type Group struct {
	Key  string    `json:"key,omitempty"`
	Time time.Time `json:"time,omitzero"` // where a step begins
	// Calls is the number of calls, and Statuses how they ended.
	Calls    int64                     `json:"calls"`
	Statuses map[toolroom.Status]int64 `json:"statuses"`
	// PerSecond is the number of calls divided by the time that has passed.
	PerSecond float64 `json:"per_second"`
	// Success is the part of the calls that succeeded, from 0 to 1, of those that
	// succeeded, failed or ran out of time. It is null if there are none.
	Success *float64 `json:"success"`
	// Queue is the time before tools started, and Run the time that they ran, of calls that
	// reached their tool.
	Queue Durations `json:"queue"`
	Run   Durations `json:"run"`
}

// Durations are statistics of durations. They are exact for up to MaxExact durations; of
// more, Exact is false and the quantiles differ from the true ones by at most the part
// Error.
type Durations struct {
	Count int64         `json:"count"`
	Mean  time.Duration `json:"mean_ns"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	Max   time.Duration `json:"max_ns"`
	Exact bool          `json:"exact"`
	Error float64       `json:"relative_error,omitempty"`
}

// MaxExact is how many durations of a group are kept for exact quantiles.
const MaxExact = 100_000

// quantileError is the relative error of estimated quantiles.
const quantileError = 0.01

// Sampler reads samples. A [Store] is one.
type Sampler interface {
	ReceiptSamples(ctx context.Context, q toolroom.ReceiptQuery, see func(Sample) bool) error
}

// StatsOf returns the statistics that q asks for.
func StatsOf(ctx context.Context, s Sampler, q StatsQuery, now time.Time) (*Stats, error) {
	if q.Until.IsZero() || q.Until.After(now) {
		q.Until = now
	}
	if q.Since.IsZero() || !q.Since.Before(q.Until) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the time since which calls are counted is not before the end")
	}
	if q.By != "" && !slices.Contains(Groupings(), q.By) {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "calls cannot be grouped by %q: choose one of %v", q.By, Groupings())
	}
	all := q.Until.Sub(q.Since)
	var steps time.Duration // the last one may be shorter
	if q.Step > 0 {
		steps = (all-1)/q.Step + 1
	}
	if q.Step < 0 || steps > MaxSteps {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%v in steps of %v are more than %d steps", all, q.Step, MaxSteps).
			WithHint("choose a longer step or a shorter time")
	}
	q.Limit = 0
	total, groups := &counter{}, map[string]*counter{}
	series := make([]*counter, steps)
	for i := range series {
		series[i] = &counter{}
	}
	err := s.ReceiptSamples(ctx, q.ReceiptQuery, func(one Sample) bool {
		if q.Surface == "" && OutsideMetrics(one.Surface) {
			return true
		}
		total.add(one)
		if q.By != "" {
			key := one.key(q.By)
			if groups[key] == nil {
				groups[key] = &counter{}
			}
			groups[key].add(one)
		}
		if q.Step > 0 {
			series[min(int(one.Started.Sub(q.Since)/q.Step), len(series)-1)].add(one)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	out := &Stats{Since: q.Since, Until: q.Until, Total: total.group(all)}
	for key, c := range groups {
		g := c.group(all)
		g.Key = key
		out.Groups = append(out.Groups, g)
	}
	slices.SortFunc(out.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Key, b.Key))
	})
	for i, c := range series {
		begin := q.Since.Add(time.Duration(i) * q.Step)
		g := c.group(min(q.Step, q.Until.Sub(begin))) // the last step may have just begun
		g.Time = begin
		out.Series = append(out.Series, g)
	}
	return out, nil
}

func (s *Sample) key(by string) string {
	switch by {
	case "tool":
		return s.Tool
	case "version":
		if s.Version == 0 {
			return s.Tool
		}
		return s.Tool + "@" + strconv.Itoa(s.Version)
	case "environment":
		return s.Environment
	case "caller":
		return s.Subject
	default:
		return s.Surface
	}
}

// counter collects the statistics of a group.
type counter struct {
	calls      int64
	statuses   map[toolroom.Status]int64
	queue, run durations
}

func (c *counter) add(s Sample) {
	c.calls++
	if c.statuses == nil {
		c.statuses = map[toolroom.Status]int64{}
	}
	c.statuses[s.Status]++
	if s.Run > 0 {
		c.queue.add(s.Queue)
		c.run.add(s.Run)
	}
}

func (c *counter) group(passed time.Duration) Group {
	g := Group{Calls: c.calls, Statuses: c.statuses, Queue: c.queue.summary(), Run: c.run.summary()}
	if g.Statuses == nil {
		g.Statuses = map[toolroom.Status]int64{}
	}
	if passed > 0 {
		g.PerSecond = float64(c.calls) / passed.Seconds()
	}
	if n := c.statuses[toolroom.StatusOK] + c.statuses[toolroom.StatusError] + c.statuses[toolroom.StatusTimeout]; n > 0 {
		part := float64(c.statuses[toolroom.StatusOK]) / float64(n)
		g.Success = &part
	}
	return g
}

// durations keeps durations exactly, and those of a group with more than MaxExact in
// buckets whose bounds grow by a constant factor.
type durations struct {
	n, sum, longest int64
	values          []int64
	buckets         map[int]int64
}

var bucketGrowth = math.Log((1 + quantileError) / (1 - quantileError))

func (d *durations) add(value time.Duration) {
	v := int64(value)
	d.n, d.sum, d.longest = d.n+1, d.sum+v, max(d.longest, v)
	if d.buckets == nil {
		d.values = append(d.values, v)
		if len(d.values) <= MaxExact {
			return
		}
		d.buckets = map[int]int64{}
		for _, old := range d.values {
			d.buckets[bucketOf(old)]++
		}
		d.values = nil
		return
	}
	d.buckets[bucketOf(v)]++
}

// bucketOf returns the bucket of a duration; all below one nanosecond share one.
func bucketOf(v int64) int {
	if v < 1 {
		return -1
	}
	return int(math.Ceil(math.Log(float64(v)) / bucketGrowth))
}

func (d *durations) summary() Durations {
	out := Durations{Count: d.n, Max: time.Duration(d.longest), Exact: d.buckets == nil}
	if d.n == 0 {
		return out
	}
	out.Mean = time.Duration(d.sum / d.n)
	if !out.Exact {
		out.Error = quantileError
	}
	slices.Sort(d.values)
	keys := make([]int, 0, len(d.buckets))
	for key := range d.buckets {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, q := range []struct {
		part float64
		to   *time.Duration
	}{{.5, &out.P50}, {.9, &out.P90}, {.99, &out.P99}} {
		*q.to = d.quantile(q.part, keys)
	}
	return out
}

// quantile returns the smallest duration that at least the given part of all do not exceed.
func (d *durations) quantile(part float64, keys []int) time.Duration {
	rank := int64(math.Ceil(part * float64(d.n)))
	if d.buckets == nil {
		return time.Duration(d.values[rank-1])
	}
	for _, key := range keys {
		if rank -= d.buckets[key]; rank <= 0 {
			if key < 0 {
				return 0
			}
			middle := 2 * math.Exp(float64(key)*bucketGrowth) / (1 + math.Exp(bucketGrowth))
			return time.Duration(min(middle, float64(d.longest)))
		}
	}
	return time.Duration(d.longest)
}

// StepFor returns a round step that divides a time into at most 180 parts.
func StepFor(all time.Duration) time.Duration {
	for _, step := range []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		time.Hour, 6 * time.Hour, 24 * time.Hour,
	} {
		if all <= 180*step {
			return step
		}
	}
	return all/180 + 1
}

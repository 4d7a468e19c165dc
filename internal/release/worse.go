package release

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Observation is a call of a version.
type Observation struct {
	Failed bool
	// Refused means that its arguments did not fit the schema, so that the tool did not run.
	Refused bool
	Run     time.Duration
}

// The statistical tests that a rollback is based on.
const (
	TestFisher      = "Fisher's exact test, one-sided"
	TestMannWhitney = "Mann-Whitney U test, one-sided"
)

// Verdict says why a version is worse than the one before.
type Verdict struct {
	// What is worse: "errors" or "latency".
	What string `json:"what"`
	Test string `json:"test"`
	// P is the probability of a difference as large or larger if the versions are equally
	// good, and Alpha the bound that it had to be below at this look.
	P     float64 `json:"p"`
	Alpha float64 `json:"alpha"`
	// Confidence is that of all looks together.
	Confidence float64 `json:"confidence"`
	Version    int     `json:"version"`
	Base       int     `json:"base"`
	// Calls and Failed count the calls of the version, BaseCalls and BaseFailed those of the
	// base. The medians are of successful calls.
	Calls      int           `json:"calls"`
	Failed     int           `json:"failed"`
	BaseCalls  int           `json:"base_calls"`
	BaseFailed int           `json:"base_failed"`
	Median     time.Duration `json:"median_ns,omitempty"`
	BaseMedian time.Duration `json:"base_median_ns,omitempty"`
}

func (v *Verdict) String() string {
	what := fmt.Sprintf("%d of %d calls of version %d failed, and %d of %d of version %d", v.Failed, v.Calls, v.Version, v.BaseFailed, v.BaseCalls, v.Base)
	if v.What == "latency" {
		what = fmt.Sprintf("the median call of version %d took %v, and of version %d %v (%d and %d calls)", v.Version, round(v.Median), v.Base, round(v.BaseMedian), v.Calls, v.BaseCalls)
	}
	return fmt.Sprintf("%s (%s: p = %.2g < %.2g; confidence %g%%)", what, v.Test, v.P, v.Alpha, v.Confidence*100)
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// firstLook is the number of calls of a version after which it is first compared; each
// further look is at twice as many.
const firstLook = 3

// lastLook returns the size of the last look at n calls, and its number from 0; size is zero if
// there are too few.
func lastLook(n int) (size, number int) {
	for s := firstLook; s <= n; s *= 2 {
		size, number = s, number+1
	}
	return size, number - 1
}

// Worse returns why a version is worse than its base beyond a confidence, or nil. Calls are
// those of the version, oldest first, since it was released. Only the first 3, 6, 12, … of
// them are judged, so that the answer depends on the calls alone and not on how often
// somebody asks. At look k errors and latency each may be wrong with the probability
// (1-confidence)/2^(k+2), so all looks together with 1-confidence at most. Latency counts as
// worse only if the median is also Slower times that of the base.
func Worse(calls, base []Observation, confidence, slower float64) *Verdict {
	size, number := lastLook(len(calls))
	if size == 0 || len(base) == 0 {
		return nil
	}
	calls = calls[:size]
	v := &Verdict{Alpha: (1 - confidence) / math.Pow(2, float64(number+2)), Confidence: confidence, Calls: size, BaseCalls: len(base)}
	v.Failed, v.BaseFailed = failures(calls), failures(base)
	if p := fisher(v.Failed, v.Calls, v.BaseFailed, v.BaseCalls); p < v.Alpha {
		v.What, v.Test, v.P = "errors", TestFisher, p
		return v
	}
	mine, theirs := durations(calls), durations(base)
	if len(mine) < firstLook || len(theirs) < firstLook {
		return nil
	}
	v.Median, v.BaseMedian = median(mine), median(theirs)
	if float64(v.Median) < slower*float64(v.BaseMedian) {
		return nil
	}
	if p := mannWhitney(mine, theirs); p < v.Alpha {
		v.What, v.Test, v.P = "latency", TestMannWhitney, p
		return v
	}
	return nil
}

func failures(all []Observation) (n int) {
	for _, o := range all {
		if o.Failed {
			n++
		}
	}
	return n
}

func durations(all []Observation) []time.Duration {
	var out []time.Duration
	for _, o := range all {
		if !o.Failed && o.Run > 0 {
			out = append(out, o.Run)
		}
	}
	return out
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// fisher returns the probability that of a failures in n calls and b in m calls the first
// group has a or more, if all a+b failures are spread at random.
func fisher(a, n, b, m int) float64 {
	failed, p := a+b, 0.0
	for k := a; k <= min(n, failed); k++ {
		if failed-k <= m {
			p += math.Exp(choose(n, k) + choose(m, failed-k) - choose(n+m, failed))
		}
	}
	return min(p, 1)
}

// choose returns the logarithm of the binomial coefficient.
func choose(n, k int) float64 {
	lg := func(x int) float64 {
		v, _ := math.Lgamma(float64(x + 1))
		return v
	}
	return lg(n) - lg(k) - lg(n-k)
}

// mannWhitney returns the probability that the first durations rank as high or higher if
// both have the same distribution: exactly for small samples without ties, else by the
// normal approximation with corrections for ties and continuity.
func mannWhitney(mine, theirs []time.Duration) float64 {
	type ranked struct {
		d    time.Duration
		mine bool
	}
	all := make([]ranked, 0, len(mine)+len(theirs))
	for _, d := range mine {
		all = append(all, ranked{d, true})
	}
	for _, d := range theirs {
		all = append(all, ranked{d, false})
	}
	slices.SortFunc(all, func(a, b ranked) int { return cmp.Compare(a.d, b.d) })
	var sum, ties float64
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].d == all[i].d {
			j++
		}
		rank, t := float64(i+j+1)/2, float64(j-i)
		ties += t*t*t - t
		for ; i < j; i++ {
			if all[i].mine {
				sum += rank
			}
		}
	}
	n, m := float64(len(mine)), float64(len(theirs))
	u := sum - n*(n+1)/2
	if ties == 0 && len(mine)*len(theirs) <= exactRanks {
		return exactU(int(math.Round(u)), len(mine), len(theirs))
	}
	size := n + m
	sigma := math.Sqrt(n * m / 12 * (size + 1 - ties/(size*(size-1))))
	if sigma == 0 {
		return 1
	}
	return math.Erfc((u-n*m/2-.5)/sigma/math.Sqrt2) / 2
}

// exactRanks bounds the work of an exact test.
const exactRanks = 400

// exactU returns the probability of a U of at least u for samples of n and m without ties.
func exactU(u, n, m int) float64 {
	// ways[i][x] is the number of orders of i values of the first sample and the values of
	// the second so far with U = x, divided by all orders at the end.
	ways := make([][]float64, n+1)
	for i := range ways {
		ways[i] = make([]float64, n*m+1)
	}
	ways[0][0] = 1
	// The number of partitions of x into at most n parts of at most m, by Gauss's binomial.
	for part := 1; part <= m; part++ {
		for i := 1; i <= n; i++ {
			for x := part; x <= i*m; x++ {
				ways[i][x] += ways[i-1][x-part]
			}
		}
	}
	var above, total float64
	for i := range ways {
		for x, w := range ways[i] {
			total += w
			if x >= u {
				above += w
			}
		}
	}
	return above / total
}

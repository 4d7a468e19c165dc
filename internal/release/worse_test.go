package release

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func observe(ok, failed int) []Observation {
	var all []Observation
	for range failed {
		all = append(all, Observation{Failed: true})
	}
	for i := range ok {
		all = append(all, Observation{Run: time.Duration(1000+i) * time.Microsecond})
	}
	return all
}

func TestFisherGivesThePublishedValues(t *testing.T) {
	t.Parallel()
	// The tea-tasting table of Fisher (1935): 3 of 4 and 1 of 4.
	if p := fisher(3, 4, 1, 4); math.Abs(p-17.0/70) > 1e-9 {
		t.Errorf("p = %v, want 17/70", p)
	}
	if p := fisher(3, 3, 0, 10); math.Abs(p-1.0/286) > 1e-9 {
		t.Errorf("p = %v, want 1/286", p)
	}
	if p := fisher(0, 5, 3, 9); p != 1 {
		t.Errorf("no failures: p = %v, want 1", p)
	}
}

func TestMannWhitneyGivesThePublishedValues(t *testing.T) {
	t.Parallel()
	ms := func(list ...int) (out []time.Duration) {
		for _, n := range list {
			out = append(out, time.Duration(n)*time.Millisecond)
		}
		return out
	}
	// All of three above all of three: one of C(6,3) orders.
	if p := mannWhitney(ms(4, 5, 6), ms(1, 2, 3)); math.Abs(p-1.0/20) > 1e-9 {
		t.Errorf("p = %v, want 1/20", p)
	}
	// U = 4.5 of 9 with ties is the middle.
	if p := mannWhitney(ms(1, 2, 3), ms(1, 2, 3)); p < .4 {
		t.Errorf("equal samples: p = %v", p)
	}
	// The exact and the approximate probability agree for larger samples.
	var a, b []time.Duration
	for i := range 40 {
		a, b = append(a, time.Duration(2*i+20)), append(b, time.Duration(2*i+1))
	}
	exact := mannWhitney(a, b)
	a = append(a, 21)
	if approx := mannWhitney(a, b); math.Abs(exact-approx) > .01 {
		t.Errorf("exact %v, approximate %v", exact, approx)
	}
}

func TestAVersionThatFailsIsWorseAndSaysWhy(t *testing.T) {
	t.Parallel()
	v := Worse(observe(0, 3), observe(20, 0), .95, 1.5)
	if v == nil || v.What != "errors" || v.Test != TestFisher || v.P >= v.Alpha {
		t.Fatalf("verdict %+v", v)
	}
	if Worse(observe(0, 2), observe(20, 0), .95, 1.5) != nil {
		t.Error("two failures are enough")
	}
	if Worse(observe(0, 3), nil, .95, 1.5) != nil {
		t.Error("nothing to compare with is enough")
	}
	if v := Worse(observe(0, 12), observe(2, 30), .95, 1.5); v != nil {
		t.Errorf("a base that fails as often: %v", v)
	}
}

func TestAVersionThatIsSlowerIsWorseOnlyIfItMatters(t *testing.T) {
	t.Parallel()
	slower := func(factor float64) []Observation {
		all := observe(24, 0)
		for i := range all {
			all[i].Run = time.Duration(float64(all[i].Run) * factor)
		}
		return all
	}
	if v := Worse(slower(2), observe(30, 0), .95, 1.5); v == nil || v.What != "latency" || v.Test != TestMannWhitney {
		t.Errorf("twice as slow: %v", v)
	}
	if v := Worse(slower(1.2), observe(30, 0), .95, 1.5); v != nil {
		t.Errorf("a fifth slower, which does not matter: %v", v)
	}
}

// The looks share the probability of a false alarm, so that asking after each call of a
// version that is as good stops it in no more than 1-confidence of the cases.
func TestFalseAlarmsStayBelowTheStatedProbability(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []Observation {
		all := make([]Observation, n)
		for i := range all {
			all[i] = Observation{Failed: random.Float64() < .2, Run: time.Duration(random.ExpFloat64() * 1e6)}
		}
		return all
	}
	const trials = 1000
	alarms := 0
	for range trials {
		base, calls := draw(60), draw(48)
		for n := range calls {
			if Worse(calls[:n+1], base, .95, 1.0) != nil {
				alarms++
				break
			}
		}
	}
	if part := float64(alarms) / trials; part > .05 {
		t.Errorf("%.1f%% false alarms", part*100)
	}
}

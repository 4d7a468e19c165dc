package api

import "github.com/prometheus/client_golang/prometheus"

// WarmPool is the state of the warm pool of one runtime and profile: the sandboxes
// that it starts ahead of programs.
type WarmPool struct {
	Runtime, Profile         string
	Ready, Starting          int
	Taken, Drained, Failures int
}

// warmPools collects its values when it is scraped.
type warmPools struct{ list func() []WarmPool }

var warmLabels = []string{"runtime", "profile"}

var (
	warmReady    = prometheus.NewDesc("toolroom_warm_ready", "Number of idle sandboxes that are ready for a program.", warmLabels, nil)
	warmStarting = prometheus.NewDesc("toolroom_warm_starting", "Number of sandboxes that are starting ahead, or will start again after a failure.", warmLabels, nil)
	warmTaken    = prometheus.NewDesc("toolroom_warm_taken_total", "Number of programs that got a ready sandbox.", warmLabels, nil)
	warmDrained  = prometheus.NewDesc("toolroom_warm_drained_total", "Number of programs that found no ready sandbox of their kind.", warmLabels, nil)
	warmFailures = prometheus.NewDesc("toolroom_warm_failures_total", "Number of failed starts ahead, and of sandboxes that ended while idle.", warmLabels, nil)
)

func (warmPools) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{warmReady, warmStarting, warmTaken, warmDrained, warmFailures} {
		out <- d
	}
}

func (w warmPools) Collect(out chan<- prometheus.Metric) {
	for _, p := range w.list() {
		for _, m := range []struct {
			desc *prometheus.Desc
			kind prometheus.ValueType
			n    int
		}{
			{warmReady, prometheus.GaugeValue, p.Ready},
			{warmStarting, prometheus.GaugeValue, p.Starting},
			{warmTaken, prometheus.CounterValue, p.Taken},
			{warmDrained, prometheus.CounterValue, p.Drained},
			{warmFailures, prometheus.CounterValue, p.Failures},
		} {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, float64(m.n), p.Runtime, p.Profile)
		}
	}
}

package api

import "github.com/prometheus/client_golang/prometheus"

// WarmPool is the state of the sandboxes that one runtime starts ahead in one
// profile.
type WarmPool struct {
	Runtime, Profile         string
	Ready, Starting          int
	Taken, Drained, Failures int
}

// warmPools asks when it is scraped.
type warmPools struct{ list func() []WarmPool }

var warmLabels = []string{"runtime", "profile"}

var (
	warmReady    = prometheus.NewDesc("toolroom_warm_ready", "Sandboxes that wait for a program.", warmLabels, nil)
	warmStarting = prometheus.NewDesc("toolroom_warm_starting", "Sandboxes that are being started ahead, or are to be after a failure.", warmLabels, nil)
	warmTaken    = prometheus.NewDesc("toolroom_warm_taken_total", "Programs that got a sandbox that waited.", warmLabels, nil)
	warmDrained  = prometheus.NewDesc("toolroom_warm_drained_total", "Programs that found no sandbox of their kind waiting.", warmLabels, nil)
	warmFailures = prometheus.NewDesc("toolroom_warm_failures_total", "Starts ahead that failed, and sandboxes that ended while they waited.", warmLabels, nil)
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

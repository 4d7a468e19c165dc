package api

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

// maxToolLabels is the maximum number of tools with metrics of their own. The calls of
// further tools count for the tool "other".
const maxToolLabels = 1000

// scrapeTimeout limits the queries of one scrape.
const scrapeTimeout = 2 * time.Second

// MetricsOptions are the origins of metrics. Each may be nil.
type MetricsOptions struct {
	// ReceiptQueue returns the number of receipts that are not durable yet.
	ReceiptQueue func() int
	Approvals    Approvals
	Sources      func() []Source
	// WarmPools returns the states of the warm pools.
	WarmPools func() []WarmPool
}

// Metrics counts calls, in its own registry. Pass each receipt to [Metrics.Count] and the
// runner's bus to [Metrics.Watch].
type Metrics struct {
	registry     *prometheus.Registry
	calls        *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	runningGauge prometheus.Gauge

	mu      sync.Mutex
	tools   map[string]bool       // the tools with metrics of their own
	running map[string]trackedRun // the calls that run, by id
}

// NewMetrics returns new metrics.
func NewMetrics(o MetricsOptions) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolroom_calls_total", Help: "Number of ended calls.",
		}, []string{"tool", "status", "surface"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "toolroom_call_seconds", Help: "Run time of tools, by kind of source.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10), // 0.5 ms to 131 s
		}, []string{"source", "status"}),
		runningGauge: prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolroom_calls_running", Help: "Number of running calls."}),
		tools:        map[string]bool{}, running: map[string]trackedRun{},
	}
	m.registry.MustRegister(m.calls, m.seconds, m.runningGauge,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.ReceiptQueue != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolroom_receipts_queued", Help: "Number of receipts that are not durable yet.",
		}, func() float64 { return float64(o.ReceiptQueue()) }))
	}
	if o.Approvals != nil {
		m.registry.MustRegister(pendingApprovals{o.Approvals})
	}
	if o.WarmPools != nil {
		m.registry.MustRegister(warmPools{o.WarmPools})
	}
	if o.Sources != nil {
		m.registry.MustRegister(sourceStates{o.Sources})
	}
	return m
}

// Handler returns a handler that serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Watch counts the running calls on a bus until stop is called.
func (m *Metrics) Watch(bus *run.Bus) (stop func()) {
	// The filter sees every event as it happens and accepts none, so there is no
	// queue to drain and no event can be lost.
	return bus.Subscribe(func(e *toolroom.Event) bool {
		if e.Kind != toolroom.EventCalled && !e.Final() {
			return false
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if e.Final() { // also of a call that was cancelled before it ran
			delete(m.running, e.Call)
		} else {
			m.running[e.Call] = trackedRun{Run{ID: e.Call, Tool: e.Tool, State: toolroom.JobRunning, Subject: e.Identity.Key(), Created: e.Time}, e.Identity}
		}
		m.runningGauge.Set(float64(len(m.running)))
		return false
	}).Close
}

// trackedRun is a run and the caller that made it.
type trackedRun struct {
	Run
	caller toolroom.Identity
}

// Running returns the running calls of this process whose caller sees accepts.
func (m *Metrics) Running(sees func(maker toolroom.Identity) bool) (list []Run) {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.running {
		if sees(one.caller) {
			list = append(list, one.Run)
		}
	}
	return list
}

// Count counts a call by its receipt.
func (m *Metrics) Count(r *toolroom.Receipt) {
	status := string(r.Status)
	m.calls.WithLabelValues(m.toolLabel(r), status, surfaceLabel(r.Surface)).Inc()
	if r.Source != "" {
		m.seconds.WithLabelValues(string(r.Source), status).Observe(r.Usage.Run.Seconds())
	}
}

// toolLabel returns the label of a call's tool. It keeps callers from making up
// labels: if no tool was found, the receipt has the name that the caller sent.
func (m *Metrics) toolLabel(r *toolroom.Receipt) string {
	if r.Source == "" {
		return "unknown"
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.tools[r.Tool] {
		if len(m.tools) >= maxToolLabels {
			return "other"
		}
		m.tools[r.Tool] = true
	}
	return r.Tool
}

// surfaceLabel returns the label of a surface: one that [toolroom.Call] names, or "other".
func surfaceLabel(s string) string {
	if slices.Contains([]string{"mcp", "http", "cli", "go", "chain", "code", "agent", "page", "replay"}, s) {
		return s
	}
	return "other"
}

var (
	pendingDesc = prometheus.NewDesc("toolroom_approvals_pending", "Number of pending approvals.", nil, nil)
	sourcesDesc = prometheus.NewDesc("toolroom_sources", "Number of sources, by state.", []string{"state"}, nil)
)

// pendingApprovals and sourceStates collect their values when they are scraped.
type pendingApprovals struct{ approvals Approvals }

func (pendingApprovals) Describe(out chan<- *prometheus.Desc) { out <- pendingDesc }

func (p pendingApprovals) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	pending, err := p.approvals.List(ctx, toolroom.ApprovalPending)
	if err != nil {
		out <- prometheus.NewInvalidMetric(pendingDesc, err)
		return
	}
	out <- prometheus.MustNewConstMetric(pendingDesc, prometheus.GaugeValue, float64(len(pending)))
}

type sourceStates struct {
	list func() []Source
}

func (sourceStates) Describe(out chan<- *prometheus.Desc) { out <- sourcesDesc }

func (s sourceStates) Collect(out chan<- prometheus.Metric) {
	states := map[string]int{}
	for _, source := range s.list() {
		states[source.State]++
	}
	for state, n := range states {
		out <- prometheus.MustNewConstMetric(sourcesDesc, prometheus.GaugeValue, float64(n), state)
	}
}

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

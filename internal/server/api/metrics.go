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
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
)

// maxToolLabels bounds how many tools have metrics of their own; the calls of
// further tools count as those of "other".
const maxToolLabels = 1000

// scrapeTimeout bounds the questions that one scrape asks.
const scrapeTimeout = 2 * time.Second

// MetricsOptions are what metrics are taken from. Each part may be nil.
type MetricsOptions struct {
	// ReceiptQueue is how many receipts wait to become durable.
	ReceiptQueue func() int
	Desk         Desk
	Sources      func() []Source
	// WarmPools are the sandboxes that wait for programs.
	WarmPools func() []WarmPool
}

// Metrics counts calls, in a registry of its own. Lead the runner's receipts
// through [Metrics.Receipts] and its events past [Metrics.Watch].
type Metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	running  prometheus.Gauge

	mu    sync.Mutex
	tools map[string]bool // that have metrics of their own
}

// NewMetrics makes metrics that have counted nothing.
func NewMetrics(o MetricsOptions) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "toolroom_calls_total", Help: "Calls that have ended.",
		}, []string{"tool", "status", "surface"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "toolroom_call_seconds", Help: "How long tools ran, by kind of source.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10), // 0.5 ms to 131 s
		}, []string{"source", "status"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "toolroom_calls_running", Help: "Calls under way."}),
		tools:   map[string]bool{},
	}
	m.registry.MustRegister(m.calls, m.seconds, m.running,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if o.ReceiptQueue != nil {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "toolroom_receipts_queued", Help: "Receipts that are not durable yet.",
		}, func() float64 { return float64(o.ReceiptQueue()) }))
	}
	if o.Desk != nil {
		m.registry.MustRegister(pendingApprovals{o.Desk})
	}
	if o.WarmPools != nil {
		m.registry.MustRegister(warmPools{o.WarmPools})
	}
	if o.Sources != nil {
		m.registry.MustRegister(sourceStates{o.Sources})
	}
	return m
}

// Handler serves the metrics in the text format of Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Watch counts the calls under way on a bus until stop is called.
func (m *Metrics) Watch(bus *run.Bus) (stop func()) {
	// The filter sees every event as it happens and keeps none, so that there
	// is no queue to drain and nothing to lose.
	return bus.Subscribe(func(e *toolroom.Event) bool {
		if e.Kind == toolroom.EventCalled {
			m.running.Inc()
		} else if e.Final() {
			m.running.Dec()
		}
		return false
	}).Close
}

// Receipts counts the calls whose receipts go to next.
func (m *Metrics) Receipts(next run.Receipts) run.Receipts { return countedReceipts{next, m} }

type countedReceipts struct {
	run.Receipts
	metrics *Metrics
}

func (c countedReceipts) Append(ctx context.Context, r *receipt.Receipt) error {
	c.metrics.count(r)
	return c.Receipts.Append(ctx, r)
}

func (m *Metrics) count(r *receipt.Receipt) {
	status := string(r.Status)
	m.calls.WithLabelValues(m.toolLabel(r), status, surfaceLabel(r.Surface)).Inc()
	if r.Source != "" {
		m.seconds.WithLabelValues(string(r.Source), status).Observe(r.Usage.Run.Seconds())
	}
}

// toolLabel keeps callers from making up metrics: of a call that found no tool
// the receipt has what the caller wrote.
func (m *Metrics) toolLabel(r *receipt.Receipt) string {
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

// surfaceLabel keeps to the doors that a [toolroom.Call] knows.
func surfaceLabel(s string) string {
	if slices.Contains([]string{"mcp", "http", "cli", "go", "chain", "code", "agent", "page", "replay"}, s) {
		return s
	}
	return "other"
}

var (
	pendingDesc = prometheus.NewDesc("toolroom_approvals_pending", "Questions that wait for a person.", nil, nil)
	sourcesDesc = prometheus.NewDesc("toolroom_sources", "Sources by state.", []string{"state"}, nil)
)

// pendingApprovals and sourceStates ask when they are scraped.
type pendingApprovals struct{ desk Desk }

func (pendingApprovals) Describe(out chan<- *prometheus.Desc) { out <- pendingDesc }

func (p pendingApprovals) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	pending, err := p.desk.List(ctx, approval.Pending)
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

package config

import (
	"time"
)

// Receipts is the section "receipts": how calls are recorded.
type Receipts struct {
	// Keep is how long receipts are kept; zero keeps them for ever.
	Keep time.Duration `yaml:"keep,omitempty"`
	// Must are patterns of tools whose calls are on the disk before they run.
	Must []string `yaml:"must,omitempty"`
	// Reserve is how many bytes must be free where receipts are kept (16 MiB):
	// with less, calls are refused.
	Reserve int64 `yaml:"reserve,omitempty"`
	// Log writes each receipt as a line too: to stdout (of a server), to otlp (a
	// collector) or to the file of that path.
	Log  string `yaml:"log,omitempty"`
	OTLP OTLP   `yaml:"otlp,omitempty"`
}

// OTLP is a collector of OpenTelemetry logs. Endpoint takes OTLP over HTTP
// (http://127.0.0.1:4318).
type OTLP struct {
	Endpoint string            `yaml:"endpoint,omitempty"`
	Headers  map[string]string `yaml:"headers,omitempty"`
}

// Words of Receipts.Log that are no path.
const (
	LogStdout = "stdout"
	LogOTLP   = "otlp"
)

func (r *Receipts) fill() {
	fill(&r.Reserve, 16<<20)
	fill(&r.OTLP.Endpoint, "http://127.0.0.1:4318")
}

// MustRecord reports whether the calls of a tool are recorded before they run.
func (r *Receipts) MustRecord(matches func(pattern string) bool) bool {
	for _, text := range r.Must {
		if matches(text) {
			return true
		}
	}
	return false
}

func (c check) receipts(r Receipts, groups map[string][]string) {
	c.patterns("receipts.must", r.Must, groups)
	if r.Reserve < 0 {
		c.problem("receipts.reserve", "it is less than nothing", "")
	}
	c.webURL("receipts.otlp.endpoint", r.OTLP.Endpoint)
	c.headers("receipts.otlp.headers", r.OTLP.Headers)
}

package config

import (
	"cmp"
	"slices"
	"time"
)

// Receipts is the section "receipts": how calls are recorded.
type Receipts struct {
	// Keep is how long receipts are kept; zero means forever.
	Keep time.Duration `yaml:"keep,omitempty"`
	// Must lists patterns of tools whose calls are on disk before they run.
	Must []string `yaml:"must,omitempty"`
	// Sync sets which receipts are on disk before their calls return: effects (those of
	// calls that may have changed something), always or never. The others survive the end
	// of the process, but not a power loss.
	Sync string `yaml:"sync,omitempty"`
	// Reserve is the number of bytes that must be free where receipts are stored (16 MiB).
	// With less, calls are refused.
	Reserve int64 `yaml:"reserve,omitempty"`
	// Log additionally writes each receipt as a line: to stdout (of a server), to otlp (a
	// collector) or to the file at that path.
	Log  string `yaml:"log,omitempty"`
	OTLP OTLP   `yaml:"otlp,omitempty"`
}

// OTLP configures a collector of OpenTelemetry logs. Endpoint accepts OTLP over HTTP
// (http://127.0.0.1:4318).
type OTLP struct {
	Endpoint string            `yaml:"endpoint,omitempty"`
	Headers  map[string]string `yaml:"headers,omitempty"`
}

// Values of Receipts.Sync.
const (
	SyncEffects = "effects"
	SyncAlways  = "always"
	SyncNever   = "never"
)

// Values of Receipts.Log that are not paths.
const (
	LogStdout = "stdout"
	LogOTLP   = "otlp"
)

func (r *Receipts) fill() {
	r.Reserve = cmp.Or(r.Reserve, 16<<20)
	r.Sync = cmp.Or(r.Sync, SyncEffects)
	r.OTLP.Endpoint = cmp.Or(r.OTLP.Endpoint, "http://127.0.0.1:4318")
}

// MustRecord reports whether the calls of a tool are recorded before they run.
func (r *Receipts) MustRecord(matches func(pattern string) bool) bool {
	return slices.ContainsFunc(r.Must, matches)
}

func (c checker) checkReceipts(r Receipts, groups map[string][]string) {
	c.checkPatterns("receipts.must", r.Must, groups)
	c.requireOneOf("receipts.sync", r.Sync, SyncEffects, SyncAlways, SyncNever)
	c.checkWebURL("receipts.otlp.endpoint", r.OTLP.Endpoint)
	c.checkHeaders("receipts.otlp.headers", r.OTLP.Headers)
}

package config

import (
	"cmp"
	"time"
)

// Limits is the section "limits". Its fields are those of the runner's limits.
type Limits struct {
	// Timeout is the run time of a call that requests none (30 s), and MaxTimeout the
	// maximum that a caller may request (10 min).
	Timeout    time.Duration `yaml:"timeout,omitempty"`
	MaxTimeout time.Duration `yaml:"max_timeout,omitempty"`
	// ApprovalWait is how long a caller waits for a person's decision (10 min).
	ApprovalWait time.Duration `yaml:"approval_wait,omitempty"`
	// OutputBytes is the part of a result that is shown (51,200), and InputBytes the
	// maximum size of the arguments (4 MiB).
	OutputBytes int `yaml:"output_bytes,omitempty"`
	InputBytes  int `yaml:"input_bytes,omitempty"`
	// KeyTTL is how long an idempotency key is remembered (24 h).
	KeyTTL time.Duration `yaml:"key_ttl,omitempty"`
	// JobTTL is how long the result of a background call is kept (168 h).
	JobTTL  time.Duration `yaml:"job_ttl,omitempty"`
	Retry   Retry         `yaml:"retry,omitempty"`
	Breaker Breaker       `yaml:"breaker,omitempty"`
	Rate    Rate          `yaml:"rate,omitempty"`
	Cache   Cache         `yaml:"cache,omitempty"`
	// Concurrency is the number of calls of one tool that may run at once; zero means
	// unlimited.
	Concurrency int `yaml:"concurrency,omitempty"`
}

// Retry limits retries: Attempts in total (3), with pauses from Base (100 ms) that double
// up to Max (30 s).
type Retry struct {
	Attempts int           `yaml:"attempts,omitempty"`
	Base     time.Duration `yaml:"base,omitempty"`
	Max      time.Duration `yaml:"max,omitempty"`
}

// Breaker stops calling a tool after a number of Failures in a row (5), except for one call
// in each Delay (1.5 s).
type Breaker struct {
	Failures int           `yaml:"failures,omitempty"`
	Delay    time.Duration `yaml:"delay,omitempty"`
}

// Rate limits how often one identity may call one tool. A PerSecond of zero means
// unlimited; Burst is the number of calls that may come at once (1).
type Rate struct {
	PerSecond float64 `yaml:"per_second,omitempty"`
	Burst     int     `yaml:"burst,omitempty"`
}

// Cache caches results of the read-only tools that the patterns in Tools match, for TTL (5
// min, at most 1 h) and up to a number of Entries (1,000).
type Cache struct {
	Tools   []string      `yaml:"tools,omitempty"`
	TTL     time.Duration `yaml:"ttl,omitempty"`
	Entries int           `yaml:"entries,omitempty"`
}

const maxCacheTTL = time.Hour

func (l *Limits) fill() {
	l.Timeout = cmp.Or(l.Timeout, 30*time.Second)
	l.MaxTimeout = cmp.Or(l.MaxTimeout, 10*time.Minute)
	l.ApprovalWait = cmp.Or(l.ApprovalWait, 10*time.Minute)
	l.OutputBytes = cmp.Or(l.OutputBytes, 51_200)
	l.InputBytes = cmp.Or(l.InputBytes, 4<<20)
	l.KeyTTL = cmp.Or(l.KeyTTL, 24*time.Hour)
	l.JobTTL = cmp.Or(l.JobTTL, 168*time.Hour)
	l.Retry.Attempts = cmp.Or(l.Retry.Attempts, 3)
	l.Retry.Base = cmp.Or(l.Retry.Base, 100*time.Millisecond)
	l.Retry.Max = cmp.Or(l.Retry.Max, 30*time.Second)
	l.Breaker.Failures = cmp.Or(l.Breaker.Failures, 5)
	l.Breaker.Delay = cmp.Or(l.Breaker.Delay, 1500*time.Millisecond)
	l.Rate.Burst = cmp.Or(l.Rate.Burst, 1)
	l.Cache.TTL = cmp.Or(l.Cache.TTL, 5*time.Minute)
	l.Cache.Entries = cmp.Or(l.Cache.Entries, 1000)
}

// Quota limits the data stored for one identity. It is the section "results" (64 entries,
// 32 MiB in total, 8 MiB each, 1 h) and the section "artifacts" (32 entries, 256 MiB in
// total, 64 MiB each, 1 h).
type Quota struct {
	Entries    int           `yaml:"entries,omitempty"`
	TotalBytes int64         `yaml:"total_bytes,omitempty"`
	EntryBytes int64         `yaml:"entry_bytes,omitempty"`
	TTL        time.Duration `yaml:"ttl,omitempty"`
}

// The defaults are those of the reference (Toolplane).
var (
	defaultResults   = Quota{Entries: 64, TotalBytes: 32 << 20, EntryBytes: 8 << 20, TTL: time.Hour}
	defaultArtifacts = Quota{Entries: 32, TotalBytes: 256 << 20, EntryBytes: 64 << 20, TTL: time.Hour}
)

func (q *Quota) fill(fallback Quota) {
	q.Entries = cmp.Or(q.Entries, fallback.Entries)
	q.TotalBytes = cmp.Or(q.TotalBytes, fallback.TotalBytes)
	// One entry cannot be larger than the total.
	q.EntryBytes = cmp.Or(q.EntryBytes, min(fallback.EntryBytes, q.TotalBytes))
	q.TTL = cmp.Or(q.TTL, fallback.TTL)
}

package config

import "time"

// Limits is the section "limits"; the fields are those of the runner's limits.
type Limits struct {
	// Timeout is the run time of a call that asks for none (30 s), MaxTimeout
	// the most a caller may ask for (10 min).
	Timeout    time.Duration `yaml:"timeout,omitempty"`
	MaxTimeout time.Duration `yaml:"max_timeout,omitempty"`
	// ApprovalWait is how long a caller is held while a person decides (10 min).
	ApprovalWait time.Duration `yaml:"approval_wait,omitempty"`
	// OutputBytes is how much of a result is shown (51,200), InputBytes the
	// largest arguments document (4 MiB).
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
	// Concurrency is how many calls of one tool may run at once; zero is
	// unlimited.
	Concurrency int `yaml:"concurrency,omitempty"`
}

// Retry bounds repeats: Attempts in all (3), with pauses from Base (100 ms)
// that double up to Max (30 s).
type Retry struct {
	Attempts int           `yaml:"attempts,omitempty"`
	Base     time.Duration `yaml:"base,omitempty"`
	Max      time.Duration `yaml:"max,omitempty"`
}

// Breaker leaves a tool alone after so many Failures in a row (5), but for one
// call in each Delay (1.5 s).
type Breaker struct {
	Failures int           `yaml:"failures,omitempty"`
	Delay    time.Duration `yaml:"delay,omitempty"`
}

// Rate bounds how often one identity may call one tool. A PerSecond of zero is
// unlimited; Burst is how many calls may come at once (1).
type Rate struct {
	PerSecond float64 `yaml:"per_second,omitempty"`
	Burst     int     `yaml:"burst,omitempty"`
}

// Cache remembers results of the read-only tools that the patterns in Tools
// name, for TTL (5 min, at most 1 h), at most so many Entries (1,000).
type Cache struct {
	Tools   []string      `yaml:"tools,omitempty"`
	TTL     time.Duration `yaml:"ttl,omitempty"`
	Entries int           `yaml:"entries,omitempty"`
}

const maxCacheTTL = time.Hour

func (l *Limits) fill() {
	fill(&l.Timeout, 30*time.Second)
	fill(&l.MaxTimeout, 10*time.Minute)
	fill(&l.ApprovalWait, 10*time.Minute)
	fill(&l.OutputBytes, 51_200)
	fill(&l.InputBytes, 4<<20)
	fill(&l.KeyTTL, 24*time.Hour)
	fill(&l.JobTTL, 168*time.Hour)
	fill(&l.Retry.Attempts, 3)
	fill(&l.Retry.Base, 100*time.Millisecond)
	fill(&l.Retry.Max, 30*time.Second)
	fill(&l.Breaker.Failures, 5)
	fill(&l.Breaker.Delay, 1500*time.Millisecond)
	fill(&l.Rate.Burst, 1)
	fill(&l.Cache.TTL, 5*time.Minute)
	fill(&l.Cache.Entries, 1000)
}

// Quota bounds what is kept for one identity. It is the section "results"
// (64 entries, 32 MiB in all, 8 MiB each, 1 h) and the section "artifacts"
// (32 entries, 256 MiB in all, 64 MiB each, 1 h).
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
	fill(&q.Entries, fallback.Entries)
	fill(&q.TotalBytes, fallback.TotalBytes)
	// An entry never needs more than all of them may.
	fill(&q.EntryBytes, min(fallback.EntryBytes, q.TotalBytes))
	fill(&q.TTL, fallback.TTL)
}

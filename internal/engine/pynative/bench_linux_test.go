package pynative_test

import (
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/pynative"
)

// A call finds a process that waits for it, as after a pause of its owner.
func BenchmarkWarm(b *testing.B) { warm(b, "1 + 1", 4*time.Millisecond) }

// Calls follow one another at once: the processes that wait run out.
func BenchmarkWithoutPause(b *testing.B) { warm(b, "1 + 1", 0) }

func BenchmarkInFork(b *testing.B) {
	enginetest.Bench(b, pynative.New(pynative.Options{SparePerOwner: 4}), options)
}

func warm(b *testing.B, source string, pause time.Duration) {
	e := open(b, pynative.Options{SparePerOwner: 4})
	run := func() error {
		result, err := e.Run(b.Context(), job("a", source), &host{})
		if err == nil && result.Outcome.Failure != nil {
			err = result.Outcome.Failure
		}
		return err
	}
	enginetest.MeasureAfter(b, func() {
		for e.Stats().Waiting < 2 && pause > 0 {
			time.Sleep(pause)
		}
	}, run)
	s := e.Stats()
	b.ReportMetric(float64(s.Hits)/float64(s.Hits+s.Misses), "hits")
	b.ReportMetric(float64(s.Memory>>10), "peak-KiB")
}

package run_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// BenchmarkReceipts is what it costs that no answer leaves without its receipt:
// calls as they were recorded before (memory), with a journal (process), and with
// receipts that are on the disk (disk). See docs/audit.md.
func BenchmarkReceipts(b *testing.B) {
	for _, kept := range []string{"memory", "process", "disk"} {
		for _, callers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/%d", kept, callers), func(b *testing.B) {
				store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "db"), sqlite.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer store.Close()
				var o receipt.RecorderOptions
				if kept != "memory" {
					o.Journal = receipt.NewJournal(b.TempDir(), "bench")
				}
				if kept == "disk" {
					o.Sync = func(*toolroom.Receipt) bool { return true }
				}
				recorder := receipt.NewRecorder(store, o)
				defer recorder.Close(b.Context())
				runner := newIssueRunner(b, issueSchema, run.Options{Receipts: recorder})

				var next atomic.Int64
				took := make([]time.Duration, b.N)
				var all sync.WaitGroup
				b.ResetTimer()
				for range callers {
					all.Go(func() {
						for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
							start := time.Now()
							if r := runner.Run(b.Context(), issueCall); r.Error != nil {
								b.Error(r.Error)
							}
							took[n-1] = time.Since(start)
						}
					})
				}
				all.Wait()
				b.StopTimer()
				slices.Sort(took)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
				b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			})
		}
	}
}

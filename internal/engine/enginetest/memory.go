package enginetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// memory reports the memory of one more instance of the engine: it compares programs
// that run at the same time with one alone.
func (s *suite) memory(b *testing.B, language string) {
	const more = 3
	hold := func(programs int) int64 {
		source := map[string]string{
			"python":     "tools.slow.meet(count=%d)",
			"javascript": "return await tools.slow.meet({count: %d})",
		}[language]
		r, taken := newCallHandler(), int64(0)
		r.whenMet = func() { taken = descendantMemory(os.Getpid()) }
		var wg sync.WaitGroup
		for range programs {
			wg.Go(func() {
				result, err := s.engine.Run(b.Context(), s.job(language, fmt.Sprintf(source, programs)), r)
				if err != nil || result.Outcome.Failure != nil {
					b.Errorf("%s, %v", describe(result), err)
				}
			})
		}
		wg.Wait()
		return taken
	}
	hold(1) // the shared processes have been started
	one := hold(1)
	if one == 0 {
		b.Skip("what its processes take cannot be read here, or it has none")
	}
	taken := float64(hold(1+more)-one) / more
	for b.Loop() {
		continue // a second time would reuse what the first has started
	}
	b.ReportMetric(taken/1024, "KiB/instance")
}

// descendantMemory returns the memory of the descendants of a process, in bytes, where
// shared memory counts proportionally: Pss in proc(5). It is 0 if that cannot be read.
func descendantMemory(pid int) (total int64) {
	for _, p := range descendants(pid) {
		total += pss(p.pid)
	}
	return total
}

func pss(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10
		}
	}
	return 0
}

package collector

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// percent returns the percentage that the collector uses.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// begin makes the collector as it is when a program starts with GOGC=150.
func begin(t *testing.T) {
	t.Helper()
	before := configured
	t.Cleanup(func() {
		configured = before
		Resume()
	})
	configured = 150
	decided.Store(false)
	debug.SetGCPercent(400)
}

func TestTheFirstCollectionEndsTheDelay(t *testing.T) {
	begin(t)
	ResumeAfterFirst()
	if got := percent(); got != 400 {
		t.Fatalf("%d %% before the first collection", got)
	}
	for percent() != 150 { // cleanups run some time after a collection
		runtime.GC()
	}
}

func TestTheFirstCollectionChangesNothingThatTheProgramDecided(t *testing.T) {
	begin(t)
	ResumeAfterFirst()
	Resume()
	debug.SetGCPercent(250)
	ran := make(chan bool)
	runtime.AddCleanup(new(*int), func(ran chan bool) { close(ran) }, ran)
	for open := true; open; {
		runtime.GC()
		select {
		case <-ran:
			open = false
		default:
		}
	}
	if got := percent(); got != 250 {
		t.Errorf("%d %% after a collection, want what the program set", got)
	}
}

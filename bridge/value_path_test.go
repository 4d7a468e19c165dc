package bridge_test

import (
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

// A guest may nest values deeply below long keys. The path to a bad one must not be joined again
// at each level.
func TestTheErrorOfADeepPartWithLongKeysIsCheap(t *testing.T) {
	key := strings.Repeat("k", 64<<10)
	var v bridge.Value = math.NaN()
	for range bridge.MaxNesting - 1 {
		v = bridge.Map{{Key: key, Value: v}}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := bridge.ToJSON(v)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.HasPrefix(err.Error(), "value.kkk") || !strings.HasSuffix(err.Error(), "is NaN, which JSON cannot hold") || len(err.Error()) > 300 {
		t.Errorf("the error is %.400v", err)
	}
	if used, most := after.TotalAlloc-before.TotalAlloc, uint64(16*bridge.MaxNesting*len(key)); used > most {
		t.Errorf("it took %d bytes, want at most %d", used, most)
	}
}

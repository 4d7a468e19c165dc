package module_test

import (
	"testing"

	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

func TestTheDocsSayWhatHolds(t *testing.T) {
	t.Parallel()
	sandboxtest.Documented(t, "../../../docs/runtimes.md", "wasm", opened(t).Probe(t.Context()))
}

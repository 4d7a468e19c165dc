package js_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

func BenchmarkInWorker(b *testing.B) { enginetest.Bench(b, inWorkers(b), workers) }

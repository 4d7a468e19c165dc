package py_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

func BenchmarkInWorker(b *testing.B) { enginetest.Bench(b, open(b), suite) }

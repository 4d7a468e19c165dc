package program_test

import (
	"strings"
	"testing"
)

// BenchmarkPrepare reads programs that are made to be slow to read: the time for
// each byte must be the same for all of them.
func BenchmarkPrepare(b *testing.B) {
	for _, piece := range []string{"x = math.add(a=1)\n", "a=", "f(", "x = math.add(a=", "for ", "def f(", "f'{", "except A as e: e.code;", "await ", "(", "(math.add(a=1))"} {
		b.Run(piece, func(b *testing.B) {
			source := "async\n" + strings.Repeat(piece, 100_000/len(piece))
			b.SetBytes(int64(len(source)))
			for b.Loop() {
				_, _ = prepare(source)
			}
		})
	}
}

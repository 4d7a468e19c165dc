package monty_test

import (
	"fmt"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

func BenchmarkInWorker(b *testing.B) { enginetest.Bench(b, open(b), options) }

// What a program that is new takes longer than one that was checked before.
func BenchmarkNewProgram(b *testing.B) {
	e := open(b)
	b.Cleanup(func() { _ = e.Close() })
	for _, kind := range []string{"known", "new"} {
		b.Run(kind, func(b *testing.B) {
			n := 0
			for b.Loop() {
				if kind == "new" {
					n++
				}
				if _, err := e.Run(b.Context(), job(fmt.Sprintf("tools.number.same(n=%d)", n), bridge.Limits{}), silent{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

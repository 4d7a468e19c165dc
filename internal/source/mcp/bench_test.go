package mcp_test

import (
	"testing"

	"github.com/toolroom/toolroom/internal/source/mcp"
)

// BenchmarkCallsOfAProgram is a call of a server on stdio: the way there and back
// between two processes.
func BenchmarkCallsOfAProgram(b *testing.B) {
	config := program("normal")
	config.Namespace, config.Owner = "odd", "test"
	s := mcp.New(config)
	defer s.Close()
	if _, err := call(b.Context(), s, "odd", nil); err != nil {
		b.Fatal(err)
	}
	for _, callers := range []struct {
		name string
		each int
	}{{"one caller", 1}, {"many callers", 32}} {
		b.Run(callers.name, func(b *testing.B) {
			b.SetParallelism(callers.each)
			if callers.each == 1 {
				for b.Loop() {
					if _, err := call(b.Context(), s, "odd", nil); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := call(b.Context(), s, "odd", nil); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

package app_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
)

func benchRoom(b *testing.B, tools int) *app.App {
	b.Helper()
	r, err := app.Open(b.Context(), app.Options{Home: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { r.Close() })
	type numbers struct{ A, B int }
	for i := range tools {
		if err := app.Register(r, fmt.Sprintf("math:add_%d", i), "Add two numbers.", func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil }); err != nil {
			b.Fatal(err)
		}
	}
	return r
}

// BenchmarkRun is a call of a Go function through a whole room on a real home.
func BenchmarkRun(b *testing.B) {
	r := benchRoom(b, 1)
	call := toolroom.Call{Tool: "math:add_0", Arguments: toolroom.Args{"A": 1, "B": 2}.JSON()}
	b.ReportAllocs()
	for b.Loop() {
		if result := r.Run(b.Context(), call); !result.OK() {
			b.Fatal(result.Error)
		}
	}
}

// BenchmarkFirstPage lists 1,000 of 5,000 tools.
func BenchmarkFirstPage(b *testing.B) {
	r := benchRoom(b, 5000)
	b.ReportAllocs()
	for b.Loop() {
		if page, err := r.Tools(toolroom.Identity{}, catalog.ListOptions{Limit: 1000}); err != nil || len(page.Entries) != 1000 {
			b.Fatal(len(page.Entries), err)
		}
	}
}

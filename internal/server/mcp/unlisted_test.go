package mcp_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom/internal/policy"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/source"
)

// A call may be the first to name a source, which is listed then. What the tool's
// definition decides must not depend on that.
func TestAHiddenToolIsHiddenAlsoBeforeItsSourceIsListed(t *testing.T) {
	t.Parallel()
	hidden, err := policy.ParsePatterns([]string{"late.*"})
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, mcpserver.Exposure{Hidden: hidden})
	var ran atomic.Int64
	f.runner.Discover = func(context.Context, string) error {
		f.add("late:one", func(context.Context, *source.Request) (*source.Output, error) {
			ran.Add(1)
			return &source.Output{Value: []byte("1")}, nil
		})
		return nil
	}
	answer := f.post(t, "ann", "tools/call", "late__one", `"name":"late__one","arguments":{}`, "")
	if ran.Load() > 0 {
		t.Errorf("a hidden tool ran: %v", answer)
	}
}

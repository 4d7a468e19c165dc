package cli

import (
	"errors"
	"strings"
	"testing"
)

func TestAPatternIsNoToolOfCalls(t *testing.T) {
	t.Parallel()
	for tool, refused := range map[string]bool{"shop:*": true, "shop:list?tems": true, "shop:listItems": false, "shop:listItems@2": false, "": false} {
		f := callFilter{tool: tool}
		if _, err := f.query(); (err != nil) != refused || refused && !strings.Contains(err.Error(), "is a pattern") {
			t.Errorf("%q: %v", tool, err)
		}
	}
}

func TestAnUnknownSurfaceSelectsNoCalls(t *testing.T) {
	t.Parallel()
	for _, surface := range []string{"", "cli", "cron", "shadow"} {
		f := callFilter{surface: surface}
		if _, err := f.query(); err != nil {
			t.Errorf("%q: %v", surface, err)
		}
	}
	f := callFilter{surface: "cil"}
	_, err := f.query()
	var usage *usageError
	if !errors.As(err, &usage) || usage.hint != "--via cli" || !strings.Contains(err.Error(), "mcp, http, cli") {
		t.Errorf("got %v", err)
	}
}

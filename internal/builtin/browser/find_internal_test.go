package browser

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
)

func TestFindEndsWithItsContext(t *testing.T) {
	t.Parallel()
	page := tree{lines: strings.Split(strings.Repeat("a\nbutton\n", 100), "\n")}
	ctx, end := context.WithCancel(t.Context())
	pattern := regexp.MustCompile("button")
	if out, err := page.find(ctx, pattern, 0, 2); err != nil || out.Matches != 100 || out.Lines != "button\n…\nbutton\n" {
		t.Errorf("%+v, %v", out, err)
	}
	end()
	if out, err := page.find(ctx, pattern, 0, 2); !errors.Is(err, context.Canceled) || out.Matches != 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

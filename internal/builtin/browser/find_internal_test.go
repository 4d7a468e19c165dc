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

func TestATextIsLookedForInLinesThatAreLongEnough(t *testing.T) {
	t.Parallel()
	page := tree{lines: []string{"s", "KELVIN"}}
	for text, want := range map[string]bool{"\u017f": true, "\u212aelvin": true, "kelvins": false} { // letters that are an s and a K in any case
		if got := page.mayHold(text); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
	pattern, err := compileFold("^\u017f$|^\u212aelvin$")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := page.find(t.Context(), pattern, 0, 2); err != nil || out.Matches != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

package errorpages

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

func TestEveryCodeHasAWholePage(t *testing.T) {
	t.Parallel()
	for _, code := range toolroom.Codes() {
		page := Page(code)
		rest, ok := strings.CutPrefix(page, "# "+string(code)+"\n")
		if !ok {
			t.Errorf("%s has no page that begins with its name", code)
			continue
		}
		for _, part := range []string{"## What happened\n", "## Why\n", "## What to do\n", "## Example\n"} {
			text, ok := strings.CutPrefix(strings.TrimLeft(rest, "\n"), part)
			body, _, more := strings.Cut(text, "\n## ")
			if !ok || len(strings.TrimSpace(body)) < 20 {
				t.Errorf("%s: the part %q is missing, empty or in another place", code, part)
			}
			if rest = strings.TrimPrefix(text, body); more {
				rest = rest[1:]
			}
		}
		if exception := code.Info().Exception; !strings.Contains(page, "`"+exception+"`") {
			t.Errorf("%s: the page does not name %s, which Python raises", code, exception)
		}
	}
	files, err := pages.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if code := strings.TrimSuffix(file.Name(), ".md"); !slices.Contains(toolroom.Codes(), toolroom.Code(code)) {
			t.Errorf("%s is about no code", file.Name())
		}
	}
}

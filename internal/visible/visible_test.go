package visible_test

import (
	"encoding/json"
	"testing"
	"unicode"

	"github.com/toolroom/toolroom/internal/visible"
)

func TestWhatIsInvisibleIsWrittenAsAnEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\ttext\n":          "plain\ttext\n",
		"Grüße, 世界, שלום, 👍":     "Grüße, 世界, שלום, 👍",
		"bob\u202e500 ot\u202c":  `bob\u202e500 ot\u202c`,
		"a\u200bb\u200d\ufeffc":  `a\u200bb\u200d\ufeffc`,
		"a\U000e0041\U000e007fb": `a\U000e0041\U000e007fb`,
		"a\u3164\u115f\u2800b":   `a\u3164\u115f\u2800b`,
		"\x1b[31mred\x1b[0m":     `\u001b[31mred\u001b[0m`,
		"\u009b31m \u0085":       `\u009b31m \u0085`,
		"a\u2028b\u00adc\u2003d": `a\u2028b\u00adc\u2003d`,
		"\ufe0f\U000e0100":       `\ufe0f\U000e0100`,
		"bad \xff\x9b utf-8":     `bad \xff\x9b utf-8`,
		"a\rb\x00c\x7f":          `a\u000db\u0000c\u007f`,
		"\ue000\u0378":           `\ue000\u0378`,
	} {
		if got := visible.Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzTextShowsEveryCharacter(f *testing.F) {
	f.Add("bob\u202e500")
	f.Fuzz(func(t *testing.T, text string) {
		shown := visible.Text(text)
		for _, r := range shown {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
				t.Fatalf("%q has %U", shown, r)
			}
		}
		document, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var before, after string
		if err := json.Unmarshal(document, &before); err != nil {
			t.Fatal(err)
		}
		escaped := visible.JSON(document)
		if err := json.Unmarshal(escaped, &after); err != nil || before != after {
			t.Fatalf("%s has another value than %s: %v", escaped, document, err)
		}
		if again := visible.Text(string(escaped)); again != string(escaped) {
			t.Fatalf("%q still has hidden characters", escaped)
		}
	})
}

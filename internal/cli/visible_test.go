package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
)

// terminal returns a cli whose output is shown on a terminal.
func terminal() (a *cli, shown *bytes.Buffer) {
	shown = &bytes.Buffer{}
	a = &cli{}
	a.screen = &screen{in: strings.NewReader(""), out: shown, err: shown, outTerminal: true, errTerminal: true, lines: bufio.NewReader(strings.NewReader(""))}
	return a, shown
}

// hostileText controls a terminal, turns text around and hides some of it.
const hostileText = "\x1b]0;t\x07\x1b[2J\u009b31m \u202e500 ot\u202c \u200b\U000e0041 end"

func TestTerminalsGetNoControlSequencesOfPrograms(t *testing.T) {
	t.Parallel()
	chunk, err := json.Marshal(map[string]string{"stream": "stdout", "text": hostileText})
	if err != nil {
		t.Fatal(err)
	}
	question := &toolroom.Approval{ID: "apr_1", Tool: "e:pay", Arguments: json.RawMessage(`{"to":"` + strings.ReplaceAll(hostileText[len("\x1b]0;t\x07\x1b[2J"):], "\x1b", "") + `"}`), Expires: time.Now().Add(time.Hour)}
	for name, show := range map[string]func(a *cli) error{
		"output of a program":    func(a *cli) error { return a.printChunk(chunk) },
		"errors of a program":    func(a *cli) error { return a.printChunk(bytes.Replace(chunk, []byte("stdout"), []byte("stderr"), 1)) },
		"a text to decide about": func(a *cli) error { return a.screen.review(hostileText) },
		"the text of a result":   func(a *cli) error { return a.screen.text(hostileText) },
		"a message":              func(a *cli) error { return a.screen.printf("%s", hostileText) },
		"a JSON answer":          func(a *cli) error { return a.screen.json(map[string]string{"text": hostileText}) },
		"a line of a stream":     func(a *cli) error { return a.screen.jsonLine(hostileText) },
		"a table":                func(a *cli) error { return a.screen.table([]string{"A"}, [][]string{{hostileText}}) },
		"fields":                 func(a *cli) error { return a.screen.fields("name", hostileText) },
		"an error":               func(a *cli) error { a.screen.fail(hostileText, hostileText); return nil },
		"the question":           func(a *cli) error { return a.showApproval(t.Context(), question) },
		"the list of questions":  func(a *cli) error { return a.foldApprovals([]*toolroom.Approval{question}) },
		"an artifact, bytewise": func(a *cli) error {
			w := a.screen.stream()
			for i := range len(hostileText) {
				if _, err := w.Write([]byte{hostileText[i]}); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		a, shown := terminal()
		if err := show(a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := strings.ReplaceAll(shown.String(), "\r\x1b[K", "")
		if !strings.Contains(text, "end") {
			t.Errorf("%s: nothing is shown: %q", name, text)
		}
		if i := strings.IndexFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Errorf("%s: %q", name, text)
		}
		if !strings.Contains(name, "program") && !strings.Contains(name, "result") && !strings.Contains(name, "artifact") &&
			(!strings.Contains(text, `\u202e`) || strings.ContainsRune(text, 0x202e) || strings.ContainsRune(text, 0xe0041)) {
			t.Errorf("%s: what is turned around or hidden is not shown: %q", name, text)
		}
	}
}

func TestTheListOfQuestionsShowsWholeArguments(t *testing.T) {
	t.Parallel()
	a, shown := terminal()
	long := `{"text":"` + strings.Repeat("x", 5000) + `","sum":500}`
	p := &toolroom.Approval{ID: "apr_1", Tool: "e:pay", Identity: toolroom.Identity{Subject: "ann"}, Arguments: json.RawMessage(long), Expires: time.Now().Add(time.Hour)}
	if err := a.foldApprovals([]*toolroom.Approval{p}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown.String(), long) || !strings.Contains(shown.String(), "toolroom approve apr_1") {
		t.Errorf("%d bytes are shown", shown.Len())
	}
}

func TestPipesGetTheBytesOfPrograms(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &screen{in: strings.NewReader(""), out: &out, err: io.Discard, lines: bufio.NewReader(strings.NewReader(""))}
	if err := s.output(false, hostileText); err != nil || out.String() != hostileText {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// -o yaml shows what --json shows, and means the same.
func TestYAMLHidesNothingAndSaysWhatJSONSays(t *testing.T) {
	t.Parallel()
	value := map[string]any{
		"text": hostileText, "lines": "a\n" + hostileText + "\n", "plain lines": "a\nb\n", "k\u200b" + hostileText: []any{"", "null", "1", "~", "a: b", `\u202e`, "- x", "#", " lead", "trail ", "'", "\"", "\t"},
		"number": json.Number("12345678901234567890.50"), "int": 3, "no": nil, "yes": true, "empty": map[string]any{}, "none": []any{}, "tag": "\U000E0041\U000E0042", "long": strings.Repeat("word \u202e ", 60),
	}
	a, shown := terminal()
	a.screen.yaml = true
	if err := a.screen.json(value); err != nil {
		t.Fatal(err)
	}
	for _, r := range shown.String() {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Errorf("the terminal gets %U in %q", r, shown)
			break
		}
	}
	var back any
	if err := yaml.Unmarshal(shown.Bytes(), &back); err != nil {
		t.Fatalf("%v\n%s", err, shown)
	}
	want, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(back)
	if err != nil {
		t.Fatal(err)
	}
	if w, g := strings.Replace(string(want), "12345678901234567890.50", "N", 1), strings.Replace(string(got), "12345678901234567000", "N", 1); w != g {
		t.Errorf("got  %s\nwant %s\n%s", g, w, shown)
	}
	if !strings.Contains(shown.String(), "12345678901234567890.50") {
		t.Errorf("a number has another text in\n%s", shown)
	}
}

// A difference, or the code of a version, may be read before somebody releases it.
func TestWhatIsDecidedAboutShowsWhatCannotBeSeen(t *testing.T) {
	t.Parallel()
	a, shown := terminal()
	if err := a.screen.review("+ pay(\u202e5001\u202c)\n"); err != nil {
		t.Fatal(err)
	}
	if want := `+ pay(\u202e5001\u202c)` + "\n"; shown.String() != want {
		t.Errorf("got %q, want %q", shown, want)
	}
	a.screen.outTerminal = false
	shown.Reset()
	if err := a.screen.review("\u202e\n"); err != nil || shown.String() != "\u202e\n" {
		t.Errorf("a program gets %q, %v", shown, err)
	}
}

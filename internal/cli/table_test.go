package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/receipt"
)

// sizedTerminal is a terminal of a width.
type sizedTerminal struct {
	bytes.Buffer
	width int
}

func (s *sizedTerminal) terminalWidth() int { return s.width }

func TestTablesFitTheTerminalAndLoseNothing(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a word and another ", 20) + "end"
	rows := func() [][]string {
		return [][]string{{"call_06zwwy24", "filesystem:read_text_file", "error", long}, {"call_1", "x:y", "ok", strings.Repeat("Q", 200)}}
	}
	head := func() []string { return []string{"CALL", "TOOL", "STATUS", "RESULT"} }
	for _, width := range []int{40, 80, 120} {
		out := &sizedTerminal{width: width}
		s := newScreen(strings.NewReader(""), out, &bytes.Buffer{})
		s.out, s.outTerminal = out, true
		if err := s.table(head(), rows()); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns in a terminal of %d: %q", n, width, line)
			}
		}
		if got := strings.Count(out.String(), "another"); got < 15 {
			t.Errorf("at %d columns words are missing: %s", width, out)
		}
		if got := strings.Count(out.String(), "Q"); got != 200 {
			t.Errorf("at %d columns %d of 200 letters are left", width, got)
		}
	}
	var out bytes.Buffer
	s := newScreen(strings.NewReader(""), &out, &bytes.Buffer{})
	if err := s.table(head(), rows()); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 || !strings.Contains(out.String(), long) {
		t.Errorf("for a program rows are cut: %s", out.String())
	}
}

func TestAToolTakesOneLineOfATerminal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		wide  bool
		lines int
	}{{false, 4}, {true, 4}} {
		out := &sizedTerminal{width: 80}
		a := &cli{Program: Program{Out: out}, screen: newScreen(strings.NewReader(""), out, &bytes.Buffer{})}
		a.screen.out, a.screen.outTerminal, a.screen.wide = out, true, tt.wide
		words := strings.Repeat("a word and another ", 10) + "end"
		tools := []toolroom.Tool{
			{ID: toolroom.MustParseID("notes:grep"), Source: toolroom.SourceMCP, Description: words},
			{ID: toolroom.MustParseID("browser:checkpoint.resume"), Source: toolroom.SourceBuiltin, Description: words},
			{ID: toolroom.MustParseID("fn:hi"), Source: toolroom.SourceJavaScript, Description: words},
		}
		if err := a.printTools(nil, tools); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "\n"); got != tt.lines || strings.Contains(out.String(), "end\n") != tt.wide {
			t.Errorf("wide %v: %d lines:\n%s", tt.wide, got, out.String())
		}
	}
}

func TestStatisticsFitATerminal(t *testing.T) {
	t.Parallel()
	out := &sizedTerminal{width: 80}
	a := &cli{Program: Program{Out: out}, screen: newScreen(strings.NewReader(""), out, &bytes.Buffer{})}
	a.screen.out, a.screen.outTerminal = out, true
	if err := a.printStats(&receipt.Stats{Total: receipt.Group{Calls: 1200}, Groups: []receipt.Group{{Key: "git:commit"}}}); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 || !strings.Contains(out.String(), "RUN P50") {
		t.Errorf("%d lines:\n%s", lines, out.String())
	}
}

func TestAMessageBeginsALineAfterOutputWithoutANewline(t *testing.T) {
	t.Parallel()
	var terminal bytes.Buffer
	s := newScreen(strings.NewReader(""), &terminal, &terminal)
	s.outTerminal, s.errTerminal = true, true
	for _, text := range []string{"whole\n", "", "part"} {
		if err := s.output(false, text); err != nil {
			t.Fatal(err)
		}
		s.say("note")
	}
	if got := strings.ReplaceAll(terminal.String(), "\r\x1b[K", ""); got != "whole\nnote\nnote\npart\nnote\n" {
		t.Errorf("%q", got)
	}
}

func TestAnIDThatIsWiderThanTheTerminalIsPrintedOnce(t *testing.T) {
	t.Parallel()
	id := "workspace:list_" + strings.Repeat("all_", 12) + "files"
	out := &sizedTerminal{width: 40}
	a := &cli{Program: Program{Out: out}, screen: newScreen(strings.NewReader(""), out, &bytes.Buffer{})}
	a.screen.out, a.screen.outTerminal = out, true
	if err := a.printFound(toolroom.Found{Hits: []toolroom.Hit{{ID: id, Text: "List the files of a folder", Call: "toolroom call it"}}}); err != nil {
		t.Fatal(err)
	}
	if want := id + "\n  List the files of a folder\n  toolroom call it\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

func TestTextsOfFieldsAreWrappedBetweenWordsOnTerminals(t *testing.T) {
	t.Parallel()
	prose, command := strings.Repeat("a word and another ", 10)+"end", "toolroom call x:y "+strings.Repeat("name=value ", 12)
	out := &sizedTerminal{width: 60}
	s := newScreen(strings.NewReader(""), out, &bytes.Buffer{})
	s.out, s.outTerminal = out, true
	if err := s.fields("what", prose, "call", command); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 60 && !strings.Contains(line, command) {
			t.Errorf("%d columns in a terminal of 60: %q", n, line)
		}
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != "what "+prose+" call "+strings.TrimSpace(command) {
		t.Errorf("words are missing: %s", got)
	}
}

func TestStatesHaveColoursOnTerminalsOnly(t *testing.T) {
	t.Parallel()
	for _, color := range []bool{true, false} {
		var out bytes.Buffer
		s := newScreen(strings.NewReader(""), &out, &bytes.Buffer{})
		s.color = color
		if err := s.table([]string{"A", "B"}, [][]string{{"ok", "x"}, {"error", "y"}, {"okay", "z"}}); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(out.String(), green+"ok"+"\x1b[0m") && strings.Contains(out.String(), red+"error"); has != color {
			t.Errorf("colour %v: %q", color, out.String())
		}
	}
}

func TestTheBeginningOfAnIDIsEnough(t *testing.T) {
	t.Parallel()
	ids := []string{"apr_abcd1", "apr_abcd2", "apr_xyzw9"}
	for typed, want := range map[string]string{
		"apr_abcd1": "apr_abcd1", "apr_xyzw": "apr_xyzw9", "xyzw": "apr_xyzw9", "xyz": "xyz", "apr_": "apr_", "none1": "none1",
	} {
		if got, err := nearest.ID(typed, ids); err != nil || got != want {
			t.Errorf("%s: %s, %v", typed, got, err)
		}
	}
	if _, err := nearest.ID("abcd", ids); err == nil || !strings.Contains(err.Error(), "2 ids") {
		t.Errorf("an ambiguous beginning: %v", err)
	}
}

func TestAResultOfManyColumnsHasALineOfItsOwn(t *testing.T) {
	t.Parallel()
	out := &sizedTerminal{width: 80}
	s := newScreen(strings.NewReader(""), out, &bytes.Buffer{})
	s.out, s.outTerminal = out, true
	result := "files:write_file is waiting for approval by a person (apr_g5xi3zjvkrrm)"
	err := s.table([]string{"CALL", "STARTED", "TOOL", "STATUS", "TOOK", "BY", "VIA", "RESULT"}, [][]string{
		{"call_06h1wsc0e", "19:04:58", "files:write_file", "denied", "14.2ms", "local", "mcp", result},
		{"call_06h1wsc0f", "19:04:59", "files:write_file", "ok", "14.2ms", "local", "mcp", ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"CALL            STARTED   TOOL              STATUS  TOOK    BY     VIA",
		"  RESULT",
		"call_06h1wsc0e  19:04:58  files:write_file  denied  14.2ms  local  mcp",
		"  " + result,
		"call_06h1wsc0f  19:04:59  files:write_file  ok      14.2ms  local  mcp",
		"",
	}, "\n")
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestCellsBreakAfterPunctuation(t *testing.T) {
	t.Parallel()
	if got := strings.Join(wrap("ns+net+landlock+seccomp+cgroup", 18), "|"); got != "ns+net+landlock+|seccomp+cgroup" {
		t.Error(got)
	}
}

func TestIDsAreNeverWrapped(t *testing.T) {
	t.Parallel()
	out := &sizedTerminal{width: 80}
	s := newScreen(strings.NewReader(""), out, &bytes.Buffer{})
	s.out, s.outTerminal = out, true
	id, tool := "call_06zwwy24", "filesystem:list_directory_with_sizes"
	err := s.table([]string{"CALL", "STARTED", "TOOL", "STATUS", "AGENT", "BY", "RESULT"}, [][]string{
		{id, "18:55:01", tool, "error", "", "ann", "the folder cannot be listed because it is not there, and so nothing was found"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), id) || !strings.Contains(out.String(), tool) || strings.Contains(out.String(), "AGENT") {
		t.Errorf("ids are wrapped, or an empty column is shown:\n%s", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
			t.Errorf("a line has more than 80 columns: %q", line)
		}
	}
}

func TestStatesAndTimesAreNotBrokenBesideLongIDs(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"fn:a_name_of_a_tool@12", "github:list_pull_request_review_comments@1", strings.Repeat("long_", 12) + ":" + strings.Repeat("name_", 12)} {
		out := &sizedTerminal{width: 80}
		s := newScreen(strings.NewReader(""), out, &bytes.Buffer{})
		s.out, s.outTerminal = out, true
		err := s.table([]string{"CALL", "STARTED", "TOOL", "STATUS", "TOOK", "BY", "VIA", "RESULT"}, [][]string{
			{"call_06h0wcn7q14m4wy1zk9th7xe", "16:39:48", tool, "cancelled", "979.4ms", "local", "http", strings.Repeat("a word ", 10)},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"16:39:48", "cancelled", "979.4ms", "STARTED", "STATUS"} {
			if !strings.Contains(out.String(), word) {
				t.Errorf("%s is broken beside %s:\n%s", word, tool, out)
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
				t.Errorf("%d columns: %q", n, line)
			}
		}
	}
}

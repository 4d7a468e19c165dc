package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// smallTerminal is a terminal of 80 columns and 5 lines.
type smallTerminal struct{ bytes.Buffer }

func (*smallTerminal) terminalWidth() int  { return 80 }
func (*smallTerminal) terminalHeight() int { return 5 }

type keyboard struct{ *strings.Reader }

func (keyboard) terminalWidth() int { return 80 }

func TestALongTextIsReadAScreenfulAtATime(t *testing.T) {
	text := strings.Repeat("a line\n", 10)
	for _, c := range []struct {
		name, keys  string
		prompts     int
		shown       int
		interactive bool
	}{
		{"to its end", "\n\n", 2, 10, true},
		{"enough", "q\n", 1, 4, true},
		{"into a pipe", "", 0, 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := &smallTerminal{}
			s := newScreen(keyboard{strings.NewReader(c.keys)}, &bytes.Buffer{}, err)
			if !c.interactive {
				s = newScreen(strings.NewReader(""), &bytes.Buffer{}, &err.Buffer)
			}
			if e := s.page(t.Context(), text); e != nil {
				t.Fatal(e)
			}
			got := err.String()
			if strings.Count(got, "q to stop") != c.prompts || strings.Count(got, "a line") != c.shown {
				t.Errorf("it shows %q", got)
			}
		})
	}
}

func TestLongFieldsAreReadAScreenfulAtATime(t *testing.T) {
	t.Parallel()
	value := strings.Repeat("a line\n", 10)
	terminal, out := &smallTerminal{}, &bytes.Buffer{}
	s := newScreen(keyboard{strings.NewReader("q\n")}, out, terminal)
	s.outTerminal = true
	if err := s.pagedFields(t.Context(), "diff", value); err != nil {
		t.Fatal(err)
	}
	if got := terminal.String(); strings.Count(got, "a line") != 4 || !strings.Contains(got, "6 lines more") {
		t.Errorf("on a terminal: %q", got)
	}
	s = newScreen(strings.NewReader(""), out, &bytes.Buffer{})
	if err := s.pagedFields(t.Context(), "diff", value); err != nil || strings.Count(out.String(), "a line") != 10 {
		t.Errorf("in a pipe: %q, %v", out.String(), err)
	}
}

func TestSuggestedCommandsHaveTheHomeAndConfigThatWereTyped(t *testing.T) {
	for _, c := range []struct{ typed, text, want string }{
		{"", "try: toolroom sources list", "try: toolroom sources list"},
		{"--home /h", "toolroom sources list", "toolroom --home /h sources list"},
		{"--config my file.yaml", "see toolroom doctor; or (toolroom tools)", "see toolroom --config 'my file.yaml' doctor; or (toolroom --config 'my file.yaml' tools)"},
		{"--home /h", "~/.local/state/toolroom is toolroom's folder", "~/.local/state/toolroom is toolroom's folder"},
		{"--home /h", "toolroom sources list --home /h", "toolroom sources list --home /h"},
	} {
		a, _ := newCLI(Program{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, func() {})
		root := a.root()
		if flag, value, ok := strings.Cut(c.typed, " "); ok {
			if err := root.PersistentFlags().Parse([]string{flag, value}); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.addGlobalFlags(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.typed, got, c.want)
		}
	}
}

func TestACommandThatSaysNothingForASecondIsSaidToBeAtWork(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*cli) (done func())
		want string
	}{
		{"silent", func(*cli) func() { return func() {} }, "toolroom gc is at work …\n"},
		{"says something", func(a *cli) func() { a.screen.say("hello"); return func() {} }, "hello\n"},
		{"says what it does", func(a *cli) func() { return a.screen.showActivity("counting") }, "counting …\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := &bytes.Buffer{}
				a, _ := newCLI(Program{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: err}, func() {})
				gc, _, e := a.root().Find([]string{"gc"})
				if e != nil {
					t.Fatal(e)
				}
				stop := a.showSilentActivity(gc)
				done := c.do(a)
				time.Sleep(3 * time.Second)
				synctest.Wait()
				done()
				stop()
				if err.String() != c.want {
					t.Errorf("it says %q, want %q", err.String(), c.want)
				}
			})
		})
	}
}

type terminalPipe struct{ *io.PipeReader }

func (terminalPipe) terminalWidth() int { return 80 }

// A question may be withdrawn, because somebody answers elsewhere. The next answer is for the
// next question, and what was typed in between is for none.
func TestAWithdrawnQuestionTakesNoAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, keys := io.Pipe()
		defer in.Close()
		s := newScreen(terminalPipe{in}, &bytes.Buffer{}, &smallTerminal{})
		withdraw := func() {
			ctx, stop := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, stop)
			if answer, err := s.ask(ctx, "first?"); !errors.Is(err, context.Canceled) {
				t.Errorf("%q, %v", answer, err)
			}
		}
		asked := func(want string) {
			time.AfterFunc(time.Second, func() { _, _ = io.WriteString(keys, want+"\n") })
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if answer, err := s.ask(ctx, "second?"); err != nil || answer != want {
				t.Errorf("%q, %v, want %q", answer, err, want)
			}
		}
		withdraw()
		asked("y")
		withdraw()
		_, _ = io.WriteString(keys, "typed between\n")
		synctest.Wait()
		asked("n")
	})
}

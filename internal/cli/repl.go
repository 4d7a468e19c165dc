package cli

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/term"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// repl runs typed programs, one after the other, in one session: that of --session, or a
// temporary one. It ends with the input. As with a shell, the exit code is that of the last
// program.
func (a *cli) repl(ctx context.Context, r *app.App, as toolroom.Call, o *execOptions, args []string) (err error) {
	if o.file != "" || len(args) > 0 {
		return usage("toolroom exec --help", "--repl reads programs from stdin and takes no program")
	}
	if o.language == "" {
		o.language = "js"
	}
	id := as.Session
	if id == "" {
		id = "repl-" + strings.ToLower(rand.Text()[:10])
		defer func() {
			gone := r.Parts().Sessions.Delete(context.WithoutCancel(ctx), operator().Key(), id)
			if toolroom.CodeOf(gone) != toolroom.CodeNotFound && err == nil { // no program had stored anything
				err = gone
			}
		}()
	}
	lines, done, err := a.lineReader()
	if err != nil {
		return err
	}
	defer func() {
		if kept := done(); err == nil {
			err = kept
		}
	}()
	inTerminal := a.atTerminal()
	var signals *interrupts
	if inTerminal {
		var stop func()
		signals, stop = handleInterrupts()
		defer stop()
	}
	var last error
	for {
		text, err := readProgram(o.language, lines)
		if errors.Is(err, io.EOF) {
			return last
		}
		if errors.Is(err, errInterrupted) {
			continue
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		ended := false
		if inTerminal {
			ended, last = signals.run(ctx, func(ctx context.Context) error { return a.runLine(ctx, r, as, o, id, text) })
		} else {
			last = a.runLine(ctx, r, as, o, id, text)
			ended = ctx.Err() != nil
		}
		if code := exitCode(0); last != nil && !errors.As(last, &code) || ended {
			return last
		}
	}
}

func (a *cli) runLine(ctx context.Context, r *app.App, as toolroom.Call, o *execOptions, session, text string) error {
	p, err := a.program(o, []string{text})
	if err != nil {
		return err
	}
	p.Session = session
	call, err := r.ExecuteCall(as, *p)
	if err != nil {
		return err
	}
	return a.runProgram(ctx, r, call)
}

// atTerminal reports whether stdin and stdout are a terminal of this process.
func (a *cli) atTerminal() bool {
	_, ok := a.In.(*os.File)
	return ok && a.screen.inTerminal && a.screen.outTerminal
}

// lineReader returns a function that reads the next line of stdin, on a terminal with editing
// and history. continued tells it that the line continues the one before. Call done at the end
// to save the history.
func (a *cli) lineReader() (lines func(continued bool) (string, error), done func() error, err error) {
	in, _ := a.In.(*os.File)
	if !a.atTerminal() {
		in := bufio.NewScanner(a.In)
		in.Buffer(nil, maxProgram+1)
		return func(bool) (string, error) {
			if in.Scan() {
				return in.Text(), nil
			}
			if errors.Is(in.Err(), bufio.ErrTooLong) {
				return "", errProgramTooLong
			}
			return "", cmp.Or(in.Err(), io.EOF)
		}, func() error { return nil }, nil
	}
	history, err := openHistory(filepath.Join(a.home, "history"))
	if err != nil {
		return nil, nil, err
	}
	keys := &lineInput{in: in}
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, a.Out}, "")
	editor.History = history
	return func(continued bool) (_ string, err error) {
		// The terminal is in raw mode only while a line is typed, so that an interrupt ends
		// a program.
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
		editor.SetPrompt("> ")
		if continued {
			editor.SetPrompt("… ")
		}
		// A terminal that does not know its size reports the width 0.
		if width, height, err := term.GetSize(int(in.Fd())); err == nil && width > 0 {
			_ = editor.SetSize(width, height) // a wrong width only looks odd
		}
		line, err := editor.ReadLine()
		if keys.wasInterrupted() {
			return "", errInterrupted
		}
		return line, err
	}, history.save, nil
}

var errProgramTooLong = toolroom.Errorf(toolroom.CodeInvalidArguments, "the program has more than %d bytes", maxProgram)

// readProgram reads lines until they form a complete program.
func readProgram(language string, line func(continued bool) (string, error)) (string, error) {
	var text strings.Builder
	for {
		next, err := line(text.Len() > 0)
		if errors.Is(err, io.EOF) && text.Len() > 0 {
			return text.String(), nil
		}
		if err != nil {
			return "", err
		}
		text.WriteString(next)
		if text.Len() > maxProgram {
			return "", errProgramTooLong
		}
		if isComplete(language, text.String()) {
			return text.String(), nil
		}
		text.WriteByte('\n')
	}
}

// history holds the lines typed at the REPL, oldest first. It is kept in a file that only its
// user can read, because programs may contain private data. It implements term.History.
type history struct {
	path  string
	lines []string
}

const (
	maxHistoryLines = 1000
	// maxHistoryLine is the maximum length of a line in bytes. A longer one was not typed.
	maxHistoryLine = 4 << 10
)

// openHistory reads a history; a missing file is empty.
func openHistory(path string) (*history, error) {
	h := &history{path: path}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	for line := range strings.Lines(string(data)) {
		h.keep(strings.TrimSuffix(line, "\n"))
	}
	return h, err
}

// Add appends a line.
func (h *history) Add(line string) { h.keep(line) }

func (h *history) keep(line string) {
	if strings.TrimSpace(line) == "" || len(line) > maxHistoryLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(len(h.lines)-maxHistoryLines, 0):]
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save writes the history to a file that only the user can read.
func (h *history) save() error {
	return atomicfile.Write(h.path, []byte(strings.Join(append(h.lines, ""), "\n")), 0o600)
}

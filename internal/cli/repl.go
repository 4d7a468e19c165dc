package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

// repl runs what a person types, one program after the other, in one session:
// that of --session, or one that goes with the end. It ends with the input; the
// exit code is that of the last program, as with a shell.
func (a *app) repl(ctx context.Context, r *room.Room, as toolroom.Call, o *execOptions, args []string) (err error) {
	if o.file != "" || len(args) > 0 {
		return usage("toolroom exec --help", "--repl reads programs from stdin: leave the program out")
	}
	if o.language == "" {
		o.language = "js"
	}
	id := as.Session
	if id == "" {
		id = "repl-" + strings.ToLower(rand.Text()[:10])
		defer func() {
			gone := r.Parts().Sessions.Delete(context.WithoutCancel(ctx), me().Key(), id)
			if toolroom.CodeOf(gone) != toolroom.CodeNotFound && err == nil { // no program kept anything
				err = gone
			}
		}()
	}
	lines := a.typist()
	var last error
	for {
		text, err := program(lines)
		if errors.Is(err, io.EOF) {
			return last
		}
		if err != nil {
			return err
		}
		if strings.TrimSpace(text) == "" {
			continue
		}
		last = a.runLine(ctx, r, as, o, id, text)
		if code := exitCode(0); last != nil && !errors.As(last, &code) {
			return last
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

func (a *app) runLine(ctx context.Context, r *room.Room, as toolroom.Call, o *execOptions, session, text string) error {
	p, err := a.program(o, []string{text})
	if err != nil {
		return err
	}
	p.Session = session
	call, err := r.ExecuteCall(as, *p)
	if err != nil {
		return err
	}
	return a.runProgram(ctx, r, call, o.json)
}

// typist gives the lines of stdin; on a terminal with editing and history.
// goesOn tells that a line belongs to the one before.
func (a *app) typist() func(goesOn bool) (string, error) {
	in, ok := a.In.(*os.File)
	if !ok || !a.screen.inTerminal || !a.screen.outTerminal {
		lines := bufio.NewReader(io.LimitReader(a.In, maxDocument))
		return func(bool) (string, error) {
			line, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) && line != "" {
				err = nil
			}
			return strings.TrimRight(line, "\r\n"), err
		}
	}
	editor := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{in, a.Out}, "")
	return func(goesOn bool) (_ string, err error) {
		// Raw only while a line is typed, so that an interrupt ends a program.
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, term.Restore(int(in.Fd()), before)) }()
		editor.SetPrompt("> ")
		if goesOn {
			editor.SetPrompt("… ")
		}
		if width, height, err := term.GetSize(int(in.Fd())); err == nil {
			_ = editor.SetSize(width, height) // a wrong width only looks odd
		}
		return editor.ReadLine()
	}
}

// program reads lines until all brackets are closed.
func program(line func(goesOn bool) (string, error)) (string, error) {
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
			return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the program is longer than %d bytes", maxProgram)
		}
		if closed(text.String()) {
			return text.String(), nil
		}
		text.WriteByte('\n')
	}
}

// closed tells whether a text has a closing bracket for each opening one, and
// no template or block comment that goes on. It need not be exact: a program
// that is no program is refused with its place.
func closed(text string) bool {
	open := 0
	for at := 0; at < len(text); at++ {
		switch c := text[at]; c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		case '"', '\'', '`':
			end := quoted(text[at+1:], c)
			if end < 0 && c == '`' {
				return false
			}
			if end < 0 { // no text goes on beyond its line
				return open <= 0
			}
			at += end + 1
		case '/':
			if strings.HasPrefix(text[at:], "//") {
				end := strings.IndexByte(text[at:], '\n')
				if end < 0 {
					return open <= 0
				}
				at += end
			} else if strings.HasPrefix(text[at:], "/*") {
				end := strings.Index(text[at:], "*/")
				if end < 0 {
					return false
				}
				at += end + 1
			}
		}
	}
	return open <= 0
}

// quoted is where the text that a quote began ends, -1 if it does not.
func quoted(rest string, quote byte) int {
	for at := 0; at < len(rest); at++ {
		switch rest[at] {
		case '\\':
			at++
		case quote:
			return at
		case '\n':
			if quote != '`' {
				return -1
			}
		}
	}
	return -1
}

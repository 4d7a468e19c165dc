package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// screen is what a person sees and types. Results go to out; everything else
// goes to err, where a line of progress may stand below. Its Write is for logs
// and safe for concurrent use.
type screen struct {
	in          io.Reader
	out         io.Writer
	outTerminal bool
	inTerminal  bool
	color       bool

	mu          sync.Mutex
	err         io.Writer
	errTerminal bool
	status      string // the line of progress that stands now
	lines       *bufio.Reader
}

func newScreen(in io.Reader, out, err io.Writer) *screen {
	s := &screen{in: in, out: out, err: err, lines: bufio.NewReader(in)}
	s.inTerminal = isTerminal(in)
	if p, ok := out.(*pipe); ok {
		s.outTerminal = isTerminal(p.w)
	}
	s.errTerminal = isTerminal(err)
	return s
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// defaultWidth is used where the terminal does not tell its own.
const defaultWidth = 100

// width is how wide a line may be on out, or 0 for any width: programs that
// read a table get it whole.
func (s *screen) width() int {
	if !s.outTerminal {
		return 0
	}
	if f, ok := s.out.(*pipe).w.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return defaultWidth
}

// interactive reports whether a person can be asked.
func (s *screen) interactive() bool { return s.inTerminal && s.errTerminal }

// Write writes to stderr, above the line of progress.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	n, err := s.err.Write(b)
	s.draw()
	return n, err
}

// say tells a person something on stderr.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintln(s, printable(fmt.Sprintf(format, args...)))
}

// fail reports an error and what to do about it.
func (s *screen) fail(message, hint string) {
	text := "toolroom: " + strings.ReplaceAll(message, "\n", "\n  ") + "\n"
	if hint != "" {
		text += "  try: " + strings.ReplaceAll(hint, "\n", "\n       ") + "\n"
	}
	_, _ = io.WriteString(s, printable(text))
}

// progress shows a line that the next one replaces; empty takes it away. Only
// a terminal shows it.
func (s *screen) progress(line string) {
	if !s.errTerminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.status = fit(oneLine(line), defaultWidth-20)
	s.draw()
}

func (s *screen) clear() {
	if s.status != "" {
		_, _ = io.WriteString(s.err, "\r\x1b[K")
	}
}

func (s *screen) draw() {
	if s.status != "" {
		_, _ = io.WriteString(s.err, s.status)
	}
}

// ask puts a question to the person and reports a yes. Everything but a clear
// yes is a no. The end of ctx ends the wait with its error.
func (s *screen) ask(ctx context.Context, question string) (string, error) {
	s.progress("")
	fmt.Fprint(s, printable(question)+" ")
	type line struct {
		text string
		err  error
	}
	typed := make(chan line, 1)
	go func() {
		text, err := s.lines.ReadString('\n')
		typed <- line{text, err}
	}()
	select {
	case l := <-typed:
		answer := strings.TrimSpace(l.text)
		if l.err != nil && answer == "" && l.err != io.EOF {
			return "", l.err
		}
		return answer, nil
	case <-ctx.Done():
		fmt.Fprintln(s)
		return "", ctx.Err()
	}
}

// secret reads a value that nobody else should see: typed blind on a terminal,
// else the whole of stdin without its last line end.
func (s *screen) secret(ctx context.Context, prompt string, limit int64) (string, error) {
	if f, ok := s.in.(*os.File); ok && s.inTerminal {
		return s.typedBlind(ctx, int(f.Fd()), prompt)
	}
	data, err := readAll(s.in, "stdin", limit)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(string(data), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}

func (s *screen) typedBlind(ctx context.Context, fd int, prompt string) (string, error) {
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	type line struct {
		text []byte
		err  error
	}
	typed := make(chan line, 1)
	fmt.Fprint(s, prompt)
	defer fmt.Fprintln(s)
	go func() {
		text, err := term.ReadPassword(fd)
		typed <- line{text, err}
	}()
	select {
	case l := <-typed:
		return string(l.text), l.err
	case <-ctx.Done(): // leave no terminal behind that does not show what is typed
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// json prints a value for programs.
func (s *screen) json(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return s.encode(enc, &b, v)
}

// jsonLine prints a value of a stream of values, each on its line.
func (s *screen) jsonLine(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	return s.encode(enc, &b, v)
}

func (s *screen) encode(enc *json.Encoder, b *bytes.Buffer, v any) error {
	if err := enc.Encode(v); err != nil {
		return err
	}
	s.progress("")
	_, err := s.out.Write(b.Bytes())
	return err
}

// text prints the text of a result. What a tool wrote must not drive a
// person's terminal; a program gets it as it is.
func (s *screen) text(text string) error {
	s.progress("")
	if s.outTerminal {
		text = printable(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// chunk prints a piece of what a tool sends: text as it is, other values on
// lines of their own.
func (s *screen) chunk(piece json.RawMessage) error {
	var text string
	if json.Unmarshal(piece, &text) != nil {
		return s.text(string(piece))
	}
	if s.outTerminal {
		text = printable(text)
	}
	_, err := io.WriteString(s.out, text)
	return err
}

// printf prints to stdout.
func (s *screen) printf(format string, args ...any) error {
	return s.text(fmt.Sprintf(format, args...))
}

// printable takes out what would drive a terminal: control characters other
// than line ends and tabs.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, text)
}

// oneLine is text for a cell or a line of progress.
func oneLine(text string) string { return printable(strings.Join(strings.Fields(text), " ")) }

// fit cuts a line to n runes.
func fit(line string, n int) string {
	if n <= 0 || utf8.RuneCountInString(line) <= n {
		return line
	}
	return string([]rune(line)[:n-1]) + "…"
}

// count is a number of things in words.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// readAll reads a whole stream that must not be longer than limit bytes.
func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, usage("", "%s has more than the %d bytes that are read from it", name, limit)
	}
	return data, nil
}

// maxDocument is the most that is read from a file or stdin, in bytes; the
// runner's own limits are narrower.
const maxDocument = 64 << 20

// document reads the file at path, or stdin for "-".
func (a *app) document(path string) ([]byte, error) {
	if path == "-" {
		return readAll(a.In, "stdin", maxDocument)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usage("", "%s", err)
	}
	defer f.Close()
	return readAll(f, path, maxDocument)
}

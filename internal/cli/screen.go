package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/toolroom/toolroom/internal/visible"
)

// screen is the terminal. Results go to out. Everything else goes to err, which may show a
// progress line at the bottom. Its Write is for logs and is safe for concurrent use.
type screen struct {
	in          io.Reader
	out         io.Writer
	outTerminal bool
	inTerminal  bool
	color       bool
	yaml        bool // in place of JSON
	wide        bool // tables are uncut
	quiet       bool // omits the messages about work that takes long

	// addFlags adds the typed --home and --config to the commands in a message; nil adds none.
	addFlags func(string) string
	// activities is the number of activities that showActivity shows.
	activities atomic.Int32

	mu          sync.Mutex
	err         io.Writer
	errTerminal bool
	status      string // the current progress line
	lineOpen    bool   // a program's last output on the terminal has no newline at its end
	lines       *bufio.Reader
	// typing is the line that is being read. A withdrawn question leaves it to the next one.
	typing chan inputLine
}

// inputLine is a line that was read from in.
type inputLine struct {
	text string
	err  error
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
	if t, ok := stream.(terminalSized); ok {
		return t.terminalWidth() > 0
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// widthOf returns the width of the terminal behind a stream, or 0 if there is none.
func widthOf(stream any) int {
	stream = unwrapPipe(stream)
	if t, ok := stream.(terminalSized); ok {
		return t.terminalWidth()
	}
	if !isTerminal(stream) {
		return 0
	}
	if w, _, err := term.GetSize(int(stream.(*os.File).Fd())); err == nil && w > 0 {
		return w
	}
	return defaultWidth
}

// heightOf returns the height of the terminal behind a stream, or 0 if it is not known.
func heightOf(stream any) int {
	stream = unwrapPipe(stream)
	if t, ok := stream.(interface{ terminalHeight() int }); ok {
		return t.terminalHeight()
	}
	if f, ok := stream.(*os.File); ok {
		if _, h, err := term.GetSize(int(f.Fd())); err == nil {
			return h
		}
	}
	return 0
}

// unwrapPipe returns the stream to which a pipe writes, or else stream itself.
func unwrapPipe(stream any) any {
	if p, ok := stream.(*pipe); ok {
		return p.w
	}
	return stream
}

// defaultWidth is the width if the terminal does not report one.
const defaultWidth = 100

// width returns the maximum line width on out, or 0 for no limit: programs that read a
// table get it uncut.
func (s *screen) width() int {
	if !s.outTerminal {
		return 0
	}
	return widthOf(s.out)
}

// interactive reports whether a person can answer questions.
func (s *screen) interactive() bool { return s.inTerminal && s.errTerminal }

// Write writes to stderr, above the progress line.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	if s.lineOpen && s.errTerminal {
		io.WriteString(s.err, "\n")
		s.lineOpen = false
	}
	n, err := s.err.Write(b)
	s.draw()
	return n, err
}

// say prints a message to stderr.
func (s *screen) say(format string, args ...any) {
	fmt.Fprintln(s, s.withFlags(visible.Text(fmt.Sprintf(format, args...))))
}

func (s *screen) withFlags(text string) string {
	if s.addFlags == nil {
		return text
	}
	return s.addFlags(text)
}

// page prints a text to stderr. If the text is longer than the person's terminal, it stops after
// each screenful until the person asks for more or has seen enough.
func (s *screen) page(ctx context.Context, text string) error {
	return s.pageVisible(ctx, visible.Text(text))
}

// pageVisible is like page, for a text that has no control characters except our own.
func (s *screen) pageVisible(ctx context.Context, text string) error {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	height, width := heightOf(s.err), max(widthOf(s.err), 1)
	for room := height - 1; len(lines) > 0; room = height - 1 {
		n := len(lines)
		if s.interactive() && height > 2 {
			for n = 0; n < len(lines) && room > 0; n++ {
				room -= max(1, (utf8.RuneCountInString(lines[n])+width-1)/width)
			}
		}
		fmt.Fprintln(s, strings.Join(lines[:n], "\n"))
		if lines = lines[n:]; len(lines) == 0 {
			return nil
		}
		answer, err := s.ask(ctx, fmt.Sprintf("-- %s more: Enter, or q to stop reading --", count(len(lines), "line")))
		if err != nil || strings.HasPrefix(answer, "q") {
			return err
		}
	}
	return nil
}

// fail prints an error and its hint.
func (s *screen) fail(message, hint string) {
	text := "toolroom: " + strings.ReplaceAll(message, "\n", "\n  ") + "\n"
	if hint != "" {
		text += "  try: " + strings.ReplaceAll(s.withFlags(hint), "\n", "\n       ") + "\n"
	}
	_, _ = io.WriteString(s, visible.Text(text))
}

// progress shows a line that the next one replaces; an empty line removes it. Only a
// terminal shows it.
func (s *screen) progress(line string) {
	if !s.errTerminal {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.status = truncate(oneLine(line), defaultWidth-20)
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

// ask asks the person a question and returns the answer. It returns ctx's error if ctx ends
// first.
func (s *screen) ask(ctx context.Context, question string) (string, error) {
	s.progress("")
	typed := s.readLine()
	fmt.Fprint(s, visible.Text(question)+" ")
	select {
	case l := <-typed:
		s.mu.Lock()
		s.typing = nil
		s.mu.Unlock()
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

// readLine returns the channel of the next line, which one goroutine at a time reads. It drops a
// line that was typed after the question before it was withdrawn, since that answers nothing.
func (s *screen) readLine() <-chan inputLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.typing != nil {
		select {
		case <-s.typing:
		default:
			return s.typing
		}
	}
	typed := make(chan inputLine, 1)
	s.typing = typed
	go func() {
		text, err := s.lines.ReadString('\n')
		typed <- inputLine{text, err}
	}()
	return typed
}

// confirm asks a question, and reports whether the answer is yes. Without a terminal it returns
// an error that suggests withoutAsking, the command that does not ask.
func (s *screen) confirm(ctx context.Context, question, withoutAsking string) (bool, error) {
	if !s.interactive() {
		return false, usage(withoutAsking, "nobody can answer here")
	}
	answer, err := s.ask(ctx, question+" [y/N]")
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes", err
}

// secret reads a secret value: typed without echo on a terminal, else all of stdin without
// the final line end.
func (s *screen) secret(ctx context.Context, prompt string, limit int64) (string, error) {
	if remote, ok := s.in.(*remoteInput); ok && s.inTerminal {
		return remote.typedSecret(prompt)
	}
	if f, ok := s.in.(*os.File); ok && s.inTerminal {
		return s.readHidden(ctx, int(f.Fd()), prompt)
	}
	data, err := readAll(s.in, "stdin", limit)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(string(data), "\n")
	return strings.TrimSuffix(text, "\r"), nil
}

// readHidden reads a line from a terminal without echo.
func (s *screen) readHidden(ctx context.Context, fd int, prompt string) (string, error) {
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
	case <-ctx.Done(): // restore the terminal's echo
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// json prints a value as JSON.
func (s *screen) json(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return s.encode(enc, &b, v)
}

// jsonLine prints one value of a stream, on one line.
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
	document := visible.JSON(b.Bytes())
	if s.yaml {
		var err error
		if document, err = toYAML(document); err != nil {
			return err
		}
	}
	_, err := s.out.Write(document) // JSON leaves U+0080 to U+009F as they are
	return err
}

// text prints the text of a result. On a terminal it removes control characters, because a
// tool's output must not control the terminal; a program gets the text unchanged.
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

// review prints text that a person reads before deciding about it. On a terminal what cannot
// be seen, or turns text around, is an escape; a program gets the text unchanged.
func (s *screen) review(text string) error {
	if s.outTerminal {
		text = visible.Text(text)
	}
	return s.text(text)
}

// chunk prints a part of a tool's output: text as it is, other values on their own lines.
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
	return s.text(s.withFlags(visible.Text(fmt.Sprintf(format, args...))))
}

// output prints what a program wrote to its stdout or stderr.
func (s *screen) output(stderr bool, text string) error {
	out, terminal := s.out, s.outTerminal
	if stderr {
		out, terminal = s.err, s.errTerminal
	}
	s.progress("")
	if terminal {
		text = printable(text)
	}
	if terminal && text != "" {
		s.mu.Lock()
		s.lineOpen = !strings.HasSuffix(text, "\n")
		s.mu.Unlock()
	}
	_, err := io.WriteString(out, text)
	return err
}

// stream returns stdout for data of any kind: a terminal gets its text, without control
// characters.
func (s *screen) stream() io.Writer {
	if s.outTerminal {
		return &textWriter{w: s.out}
	}
	return s.out
}

// textWriter removes control characters. A character may come in several writes.
type textWriter struct {
	w    io.Writer
	part []byte
}

func (t *textWriter) Write(b []byte) (int, error) {
	text := append(t.part, b...)
	end := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				end = start
			}
			break
		}
	}
	t.part = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(t.w, printable(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// printable removes control characters, except line ends and tabs.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) {
			return r
		}
		return -1
	}, text)
}

// oneLine prepares text for a table cell or progress line.
func oneLine(text string) string { return visible.Text(strings.Join(strings.Fields(text), " ")) }

// truncate truncates a line to n runes.
func truncate(line string, n int) string {
	if n <= 0 || utf8.RuneCountInString(line) <= n {
		return line
	}
	return string([]rune(line)[:n-1]) + "…"
}

// count formats a number with a noun.
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// readAll reads a stream of at most limit bytes.
func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, usage("", "%s is larger than the limit of %d bytes", name, limit)
	}
	return data, nil
}

// maxDocument is the maximum size of a file or stdin, in bytes; the runner's own limits are
// smaller.
const maxDocument = 64 << 20

// document reads the file at path, or stdin if path is "-".
func (a *cli) document(path string) ([]byte, error) {
	if path == "-" {
		return readAll(a.In, "stdin", maxDocument)
	}
	f, err := os.Open(a.typedPath(path))
	if err != nil {
		if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
			failed.Path = path // as it was typed
		}
		return nil, usage("name a file that can be read, relative to the folder of the command, or - for stdin", "%s", err)
	}
	defer f.Close()
	return readAll(f, path, maxDocument)
}

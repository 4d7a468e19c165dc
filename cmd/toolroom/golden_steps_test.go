package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

// stepTimeout is how long a step may take; it is long, as it only ends tests that
// fail.
const stepTimeout = time.Minute

// world is what the steps of one scenario act on: a folder with its files, a
// home, a server once it was started, and a client of MCP.
type world struct {
	t            *testing.T
	dir          string
	env          []string
	placeholders *placeholders
	server       *server
	client       *client
	// background are the steps that run beside others, in the order of their start.
	background []chan string
	streams    map[string]*stream
}

// newTempFolder returns a folder for temporary files that other users may enter, as
// sandboxes must. In the usual one, gc also finds what other tests have left.
func newTempFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "golden-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

func newWorld(t *testing.T, kit *kit, files *txtar.Archive, client string) *world {
	t.Helper()
	root := t.TempDir()
	w := &world{t: t, dir: filepath.Join(root, "work"), streams: map[string]*stream{}}
	w.placeholders = newPlaceholders(kit.services, "SERVICES", w.dir, "WORK", root, "ROOT", kit.bin, "BIN")
	w.env = []string{
		"PATH=" + kit.bin, "HOME=" + filepath.Join(root, "user"), "TOOLROOM_HOME=" + filepath.Join(root, "home"), "TOOLROOM_TRUST_CONFIG=1", "TOOLROOM_QUIET=1",
		"TMPDIR=" + newTempFolder(t), "TZ=UTC", "NO_COLOR=1",
	}
	w.client = newClient(w, client)
	version := fmt.Sprintf(`"protocolVersion":"%s"`, w.client.revision)
	w.placeholders.fixed = append(w.placeholders.fixed, version, `"protocolVersion":"REVISION"`)
	makeHome(t, filepath.Join(root, "home"))
	for _, folder := range []string{w.dir, filepath.Join(root, "user")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shared, err := filepath.Glob("testdata/golden/shared/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range shared {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w.write(filepath.Base(file), data)
	}
	for _, f := range files.Files {
		w.write(f.Name, f.Data)
	}
	t.Cleanup(w.stopAll)
	return w
}

// write writes a file of the scenario, with the address of the services in it.
func (w *world) write(name string, data []byte) {
	file := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(w.placeholders.restore(string(data))), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// step does one step and returns its normalized output.
func (w *world) step(text string, input []string) string {
	if rest, ok := strings.CutPrefix(text, "& "); ok {
		done := make(chan string, 1)
		w.background = append(w.background, done)
		go func() { done <- w.act(rest, input) }()
		return ""
	}
	if rest, ok := strings.CutPrefix(text, "until "); ok {
		words := split(w.t, rest)
		return w.normalize(w.until(words[0], strings.TrimSpace(rest[strings.Index(rest, words[0])+len(words[0])+1:]), input))
	}
	if text == "wait" {
		var b strings.Builder
		for _, done := range w.background {
			b.WriteString(w.normalize(<-done))
		}
		w.background = nil
		return b.String()
	}
	return w.normalize(w.act(text, input))
}

// until repeats a step until its output has a text.
func (w *world) until(want, text string, input []string) string {
	id := w.client.next
	for end := time.Now().Add(stepTimeout); ; time.Sleep(50 * time.Millisecond) {
		w.client.next = id
		out := w.act(text, input)
		if strings.Contains(out, strings.Trim(want, "'")) {
			return out
		}
		if time.Now().After(end) {
			w.t.Errorf("%s never printed %s:\n%s", text, want, out)
			return out
		}
	}
}

// act does one step. Its output has a mark before each line, and is not normalized yet.
func (w *world) act(text string, input []string) string {
	verb, rest, _ := strings.Cut(text, " ")
	switch verb {
	case "toolroom":
		return w.command(split(w.t, rest), input)
	case "serve":
		return w.serve(split(w.t, rest))
	case "stop":
		return w.server.stop()
	case "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS":
		return w.request(verb, rest, input)
	case "follow":
		return w.follow(rest, input)
	case "events":
		return w.events(rest)
	case "call":
		return w.callEverywhere(rest)
	case "write":
		w.write(rest, []byte(strings.Join(input, "\n")+"\n"))
		return ""
	case "mcp", "tell", "raw", "can", "hello":
		return w.client.step(verb, rest, input)
	}
	w.t.Errorf("there is no step %q", text)
	return ""
}

// normalize replaces what differs from run to run in an output, and breaks its JSON into lines.
func (w *world) normalize(out string) string {
	replaced := w.placeholders.replace(out)
	var b strings.Builder
	for _, l := range strings.SplitAfter(replaced, "\n") {
		mark, text := "", l
		if len(l) > 2 && strings.Contains("|!=", l[:1]) {
			mark, text = l[:2], l[2:]
		}
		data, isData := strings.CutPrefix(text, "data: ")
		switch {
		case isData && strings.HasPrefix(data, "{"):
			b.WriteString(prefixLines(mark, "data: "+breakJSON(data)))
		case strings.HasPrefix(text, "{") || strings.HasPrefix(text, "["):
			b.WriteString(prefixLines(mark, breakJSON(text)))
		case replaced != out && mark == markOut && !strings.HasPrefix(text, " "):
			b.WriteString(mark + columns(text))
		default:
			b.WriteString(l)
		}
	}
	return b.String()
}

// command runs the command line.
func (w *world) command(args, input []string) string {
	ctx, cancel := context.WithTimeout(w.t.Context(), stepTimeout)
	defer cancel()
	var out, errs bytes.Buffer
	c := exec.CommandContext(ctx, filepath.Join(w.binary(), "toolroom"), args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = w.dir, w.env, &out, &errs
	c.Stdin = strings.NewReader(strings.Join(input, "\n"))
	code := 0
	var exit *exec.ExitError
	if err := c.Run(); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		w.t.Error(err)
	}
	text := prefixLines(markOut, out.String()) + withoutLog(prefixLines(markErr, errs.String()))
	if code != 0 {
		text += fmt.Sprintf("%sexit %d\n", markState, code)
	}
	return text
}

func (w *world) binary() string { return strings.TrimPrefix(w.env[0], "PATH=") }

// server is `toolroom serve`.
type server struct {
	w      *world
	cmd    *exec.Cmd
	url    string
	stderr chan string // lines of stderr; closed at its end
	stdout bytes.Buffer
}

var readyAt = regexp.MustCompile(`ready at http://([0-9.:]+)`)

// serve starts a server and waits until it is ready.
func (w *world) serve(args []string) string {
	s := &server{w: w, cmd: exec.Command(filepath.Join(w.binary(), "toolroom"), append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...), stderr: make(chan string, 1000)}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout = w.dir, w.env, &s.stdout
	pipe, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		w.t.Error(err)
		return ""
	}
	go func() {
		defer close(s.stderr)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			s.stderr <- lines.Text()
		}
	}()
	w.server = s
	var printed strings.Builder
	for l := range s.stderr {
		printed.WriteString(markErr + l + "\n")
		if at := readyAt.FindStringSubmatch(l); at != nil {
			s.url = "http://" + at[1]
			w.placeholders.fixed = append(w.placeholders.fixed, at[1], "SERVER")
			w.waitForSources()
			return withoutLog(printed.String())
		}
	}
	return withoutLog(printed.String()) + s.stop()
}

// waitForSources waits until all sources have been listed or given up.
func (w *world) waitForSources() {
	for end := time.Now().Add(stepTimeout); strings.Contains(w.act("GET /readyz", nil), `"sources":`); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Error("the sources are never listed")
			return
		}
	}
}

// withoutLog leaves out lines of the log, and the one that comes once all sources are
// listed: what else goes on in the machine has a part in when they come.
func withoutLog(printed string) string { return logLine.ReplaceAllString(printed, "") }

var logLine = regexp.MustCompile(`(?m)^! (time=|MCP clients see ).*\n`)

// stop ends the server as Ctrl-C does.
func (s *server) stop() string {
	if s == nil || s.cmd.ProcessState != nil {
		return ""
	}
	_ = s.cmd.Process.Signal(syscall.SIGINT)
	kill := time.AfterFunc(stepTimeout, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	var printed strings.Builder
	for l := range s.stderr {
		printed.WriteString(markErr + l + "\n")
	}
	_ = s.cmd.Wait()
	return prefixLines(markOut, s.stdout.String()) + withoutLog(printed.String()) + fmt.Sprintf("%sexit %d\n", markState, s.cmd.ProcessState.ExitCode())
}

// stopAll stops what a scenario has left running.
func (w *world) stopAll() {
	for _, s := range w.streams {
		s.close()
	}
	w.client.close()
	if w.server == nil {
		return
	}
	if printed := w.server.stop(); w.t.Failed() {
		w.t.Log(printed)
	}
}

// commonHeaders are headers that are equal in all responses, or differ from run to run.
var commonHeaders = []string{"Date", "Content-Length", "Content-Type", "X-Request-Id", "X-Content-Type-Options", "Connection"}

// request makes a request. Lines of the input are headers until one begins as
// JSON does; a body may stand behind the path, too.
func (w *world) request(method, rest string, input []string) string {
	ctx, cancel := context.WithTimeout(w.t.Context(), stepTimeout)
	defer cancel()
	resp, err := w.send(ctx, method, rest, input)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, rest, err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Errorf("%s %s: %v", method, rest, err)
	}
	return statusAndHeaders(resp) + answer(resp, string(body))
}

func (w *world) send(ctx context.Context, method, rest string, input []string) (*http.Response, error) {
	if w.server == nil {
		return nil, errors.New("no server was started: the scenario needs a step serve")
	}
	path, body, _ := strings.Cut(rest, " ")
	if name, ok := strings.CutPrefix(body, "@"); ok {
		data, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			return nil, err
		}
		body = string(data)
	}
	var headers []string
	for i, l := range input {
		if strings.HasPrefix(l, "{") || strings.HasPrefix(l, "[") || !strings.Contains(l, ": ") {
			body = strings.Join(input[i:], "\n")
			break
		}
		headers = append(headers, l)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.server.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	return http.DefaultTransport.RoundTrip(req) // follows no redirect
}

// answer formats a response with its body. A newline at the end of JSON makes no difference.
func answer(resp *http.Response, body string) string {
	kind := resp.Header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/event-stream") {
		var b strings.Builder
		for e := range readEvents(strings.NewReader(body)) {
			b.WriteString(prefixLines(markOut, e))
		}
		return b.String()
	}
	if !utf8.ValidString(body) {
		return markOut + "what is no text\n"
	}
	if strings.Contains(kind, "json") && body != "" {
		body = strings.TrimSuffix(body, "\n") + "\n"
	}
	return prefixLines(markOut, body)
}

// statusAndHeaders returns the status of a response and its headers except commonHeaders.
func statusAndHeaders(resp *http.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s%d %s\n", markState, resp.StatusCode, resp.Header.Get("Content-Type"))
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if !slices.Contains(commonHeaders, name) {
			fmt.Fprintf(&b, "%s%s: %s\n", markState, name, strings.Join(resp.Header[name], ", "))
		}
	}
	return b.String()
}

// stream is a response whose body is still open.
type stream struct {
	events chan string
	close  context.CancelFunc
}

// follow begins to read events: follow NAME PATH.
func (w *world) follow(rest string, input []string) string {
	name, path, _ := strings.Cut(rest, " ")
	ctx, cancel := context.WithCancel(w.t.Context())
	resp, err := w.send(ctx, http.MethodGet, path, append(input, "Accept: text/event-stream"))
	if err != nil {
		cancel()
		w.t.Error(err)
		return ""
	}
	s := &stream{events: make(chan string, 100), close: cancel}
	w.streams[name] = s
	go func() {
		defer close(s.events)
		defer resp.Body.Close()
		for e := range readEvents(resp.Body) {
			s.events <- e
		}
	}()
	return statusAndHeaders(resp)
}

// readEvents reads the events of a stream, without comments.
func readEvents(r io.Reader) func(func(string) bool) {
	return func(yield func(string) bool) {
		var event strings.Builder
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			switch l := lines.Text(); {
			case strings.HasPrefix(l, ":"):
			case l != "":
				event.WriteString(l + "\n")
			case event.Len() > 0:
				if !yield(event.String()) {
					return
				}
				event.Reset()
			}
		}
	}
}

// events prints the next events of a stream: events NAME COUNT.
func (w *world) events(rest string) string {
	name, count := rest, 1
	fmt.Sscan(rest, &name, &count)
	var b strings.Builder
	for range count {
		select {
		case e, ok := <-w.streams[name].events:
			if !ok {
				return b.String() + markState + "the stream has ended\n"
			}
			b.WriteString(prefixLines(markOut, e))
		case <-time.After(stepTimeout):
			w.t.Errorf("%s has no more events", name)
			return b.String()
		}
	}
	return b.String()
}

// callEverywhere makes one call over HTTP, MCP and the command line.
func (w *world) callEverywhere(rest string) string {
	tool := split(w.t, rest)[0]
	_, arguments, _ := strings.Cut(rest, " {")
	if arguments != "" {
		arguments = "{" + arguments
	}
	if arguments == "" {
		arguments = "{}"
	}
	name := strings.NewReplacer(":", "__", ".", "_").Replace(tool)
	return w.request(http.MethodPost, "/api/v1/call", []string{fmt.Sprintf(`{"tool":%q,"arguments":%s,"no_wait":true}`, tool, arguments)}) +
		w.client.step("mcp", fmt.Sprintf(`tools/call {"name":%q,"arguments":%s}`, name, arguments), nil) +
		w.command([]string{"call", "--no-wait", tool, arguments}, nil)
}

// split splits a command into words; single quotes hold one together.
func split(t *testing.T, text string) []string {
	var words []string
	var word strings.Builder
	quoted, some := false, false
	for _, r := range text {
		switch {
		case r == '\'':
			quoted, some = !quoted, true
		case r == ' ' && !quoted:
			if some || word.Len() > 0 {
				words = append(words, word.String())
			}
			some = false
			word.Reset()
		default:
			word.WriteRune(r)
		}
	}
	if quoted {
		t.Errorf("an open quote in %s", text)
	}
	if some || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

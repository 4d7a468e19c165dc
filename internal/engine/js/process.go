package js

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

// processes starts workers that are processes of their own.
type processes struct {
	command  []string
	cacheDir string
}

func (p *processes) close() error { return nil }

func (p *processes) start(ctx context.Context) (*worker, error) {
	arguments := append(p.command[1:len(p.command):len(p.command)], "-cache", p.cacheDir)
	cmd := exec.Command(p.command[0], arguments...)
	cmd.Env = []string{} // nothing of the server's environment
	words := &tail{}
	cmd.Stderr = words
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, unavailable(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, unavailable(err)
	}
	if err := cmd.Start(); err != nil {
		return nil, unavailable(err)
	}
	var once sync.Once
	return connect(ctx, &pipes{out, in}, &worker{
		isolation: "wasm",
		kill: func() {
			once.Do(func() {
				_ = cmd.Process.Kill() // it may have ended by itself
				_ = cmd.Wait()
			})
		},
		lastWords: words.String,
	})
}

// pipes are the two directions of a worker as one stream.
type pipes struct {
	io.ReadCloser
	in io.WriteCloser
}

func (p *pipes) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes both directions.
func (p *pipes) Close() error { return errors.Join(p.in.Close(), p.ReadCloser.Close()) }

// tail keeps the end of what a worker says of its own failure.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail is enough for a panic's first lines.
const maxTail = 4 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := maxTail - len(t.text); room > 0 {
		t.text = append(t.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(bytes.ToValidUTF8(t.text, nil))); text != "" {
		return "; it said: " + text
	}
	return ""
}

// Worker is the main of a worker process: it serves the bridge on stdin and
// stdout until the host ends it. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	cacheDir := flags.String("cache", "", "folder of compiled code")
	if err := flags.Parse(arguments); err != nil {
		return 2
	}
	m, err := quickjs.New(ctx, quickjs.Options{Prelude: prelude(), CacheDir: *cacheDir})
	if err == nil {
		err = serve(ctx, m, struct {
			io.Reader
			io.Writer
		}{os.Stdin, os.Stdout})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

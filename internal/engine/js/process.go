package js

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/engine/prelude"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// processes starts workers that are processes of their own, as far from
// everything as the machine allows.
type processes struct {
	command  []string
	cacheDir string
	launcher launcher

	mu   sync.Mutex
	warm bool // the cache holds what a worker needs
}

// launched is a process that has been started.
type launched struct {
	kill      func() // ends it; returns when it has ended; may be called twice
	isolation string
}

func (p *processes) close() error { return nil }

func (p *processes) start(ctx context.Context) (*worker, error) {
	if err := p.warmUp(ctx); err != nil {
		return nil, unavailable(err)
	}
	in, ourIn, err := os.Pipe()
	if err != nil {
		return nil, unavailable(err)
	}
	ourOut, out, err := os.Pipe()
	if err != nil {
		_, _ = in.Close(), ourIn.Close()
		return nil, unavailable(err)
	}
	stream := &pipes{ourOut, ourIn}
	words := &tail{}
	process, err := p.launcher.launch(p.command, p.cacheDir, in, out, words)
	// With these open here as well, the worker's end would not be seen.
	_, _ = in.Close(), out.Close()
	if err != nil {
		_ = stream.Close()
		return nil, unavailable(err)
	}
	return connect(ctx, stream, &worker{isolation: process.isolation, kill: process.kill, lastWords: words.String})
}

// warmUp lets a process of its own fill the cache, before any that will run
// programs: those cannot write to it.
func (p *processes) warmUp(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.warm || p.cacheDir == "" {
		return nil
	}
	if err := os.MkdirAll(p.cacheDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of compiled code: %w", err)
	}
	arguments := append(slices.Clone(p.command[1:]), "-cache", p.cacheDir, "-warm")
	cmd := exec.CommandContext(ctx, p.command[0], arguments...)
	cmd.Env = []string{} // nothing of the server's environment
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile QuickJS into %s: %w: %.500s", p.cacheDir, err, said)
	}
	if err := readable(p.cacheDir); err != nil {
		return fmt.Errorf("let workers read the compiled code: %w", err)
	}
	p.warm = true
	return nil
}

// readable lets every user read a folder, and its owner alone write: a worker
// is another user, who sees this folder and nothing around it.
func readable(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		return os.Chmod(path, 0o644)
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

// WorkerArg is the first argument of a binary that is executed to be a worker:
// its main must hand the arguments after it to [Worker].
const WorkerArg = "__engine-worker"

// Worker is the main of a worker process: it serves the bridge on stdin and
// stdout until the host ends it. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	if len(arguments) > 0 && arguments[0] == lockdown.InitArg {
		return lockdown.Main()
	}
	if err := work(ctx, arguments); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	cacheDir := flags.String("cache", "", "folder of compiled code")
	warm := flags.Bool("warm", false, "fill that folder, and end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	m, err := quickjs.New(ctx, quickjs.Options{Prelude: prelude.JavaScript(), CacheDir: *cacheDir})
	if err != nil {
		return err
	}
	defer m.Close()
	if *warm {
		return nil
	}
	// All that has to be opened or compiled is; what follows is a stranger's.
	if err := lock(); err != nil {
		return err
	}
	return serve(ctx, m, struct {
		io.Reader
		io.Writer
	}{os.Stdin, os.Stdout})
}

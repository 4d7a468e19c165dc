package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
)

// Self starts workers that are this same binary, and that compile WebAssembly
// before they serve.
type Self struct {
	// Memory bounds all that each of them uses, in bytes, as [Spec] says. It is set
	// before the first is started.
	Memory int64

	launcher *Launcher
	command  []string
	cacheDir string

	mu   sync.Mutex // guards warm
	warm bool       // the cache holds what a worker needs
}

// NewSelf makes a Self. Command is the absolute path of the binary, with
// arguments that lead it to [Main]. Init is the command that begins a sandbox, as
// in [lockdown.Host]; empty is Command.
//
// CacheDir keeps compiled code between starts; empty means none. A process of
// its own fills it first, before any that runs programs: those only read it.
func NewSelf(sandbox string, command, init []string, cacheDir string) *Self {
	if len(init) == 0 {
		init = append(slices.Clone(command), lockdown.InitArg)
	}
	return &Self{launcher: NewLauncher(sandbox, init), command: command, cacheDir: cacheDir}
}

// Start starts one.
func (s *Self) Start(ctx context.Context) (Place, error) {
	if err := s.warmUp(ctx); err != nil {
		return nil, err
	}
	spec := Spec{Path: s.command[0], Args: slices.Clone(s.command), Memory: s.Memory}
	if s.cacheDir != "" {
		folder, err := filepath.Abs(s.cacheDir)
		if err != nil {
			return nil, fmt.Errorf("find the folder of compiled code: %w", err)
		}
		spec.Folder = folder
		spec.Args = append(spec.Args, "-cache", FolderArg)
	}
	p, err := s.launcher.Start(spec)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// warmMark is the file that says which binary has filled the cache.
const warmMark = "warm"

func (s *Self) warmUp(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.warm || s.cacheDir == "" {
		return nil
	}
	// By size and time: were it yet another, its workers would compile for
	// themselves at every start, and run as well.
	binary, err := os.Stat(s.command[0])
	if err != nil {
		return fmt.Errorf("find the binary of the workers: %w", err)
	}
	stamp := fmt.Sprintf("%d bytes of %s", binary.Size(), binary.ModTime().UTC().Format(time.RFC3339Nano))
	if by, err := os.ReadFile(filepath.Join(s.cacheDir, warmMark)); err == nil && string(by) == stamp {
		s.warm = true
		return nil
	}
	if err := os.MkdirAll(s.cacheDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of compiled code: %w", err)
	}
	// Were two processes to fill it at once, the later would put files that only
	// its own user can read in the place of those that this one has opened to all.
	lock := flock.New(filepath.Join(s.cacheDir, "lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock the folder of compiled code: %w", err)
	}
	defer func() { _ = lock.Close() }()
	arguments := append(slices.Clone(s.command[1:]), "-cache", s.cacheDir, "-warm")
	cmd := exec.CommandContext(ctx, s.command[0], arguments...)
	cmd.Env = []string{} // nothing of the server's environment
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile WebAssembly into %s: %w: %.500s", s.cacheDir, err, said)
	}
	if err := mark.Readable(s.cacheDir); err != nil {
		return fmt.Errorf("let workers read the compiled code: %w", err)
	}
	if err := os.WriteFile(filepath.Join(s.cacheDir, warmMark), []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("note that the code is compiled: %w", err)
	}
	s.warm = true
	return nil
}

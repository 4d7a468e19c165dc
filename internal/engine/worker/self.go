package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

// Self starts workers that run this same binary and compile WebAssembly before
// they serve.
type Self struct {
	// Memory bounds the memory of each worker, in bytes, as in [Spec]. Set it before
	// the first worker starts.
	Memory int64

	launcher *Launcher
	command  []string
	cacheDir string

	mu sync.Mutex // one fills the cache at a time
}

// NewSelf returns a Self. Command is the absolute path of the binary, with
// arguments that lead it to [Main]. Init is the command that begins a sandbox, as
// in [lockdown.HostMachine]; if it is empty, Command is used.
//
// CacheDir keeps compiled code between starts; empty means none. A separate
// process fills it before any worker starts. Workers only read it.
func NewSelf(sandbox string, command, init []string, cacheDir string) *Self {
	if len(init) == 0 {
		init = append(slices.Clone(command), lockdown.InitArg)
	}
	return &Self{launcher: NewLauncher(sandbox, init), command: command, cacheDir: cacheDir}
}

// Start starts a worker.
func (s *Self) Start(ctx context.Context) (GuestProcess, error) {
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

// stampFile is the name of the file that records which binaries have filled the cache: one stamp
// per line, the newest last, at most maxStamps. Several binaries may share a cache.
const (
	stampFile = "warm"
	maxStamps = 16
)

// fillTimeout bounds the compilation. CPython takes 5 s of a processor, more on small machines.
const fillTimeout = 5 * time.Minute

func (s *Self) warmUp(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cacheDir == "" {
		return nil
	}
	// This is looked up for each worker, because the cache may be emptied meanwhile.
	// The stamp is size and time. If another binary has the same stamp, its workers
	// compile at every start, and still run correctly.
	binary, err := os.Stat(s.command[0])
	if err != nil {
		return fmt.Errorf("find the binary of the workers: %w", err)
	}
	stamp := fmt.Sprintf("%d bytes of %s", binary.Size(), binary.ModTime().UTC().Format(time.RFC3339Nano))
	mark := filepath.Join(s.cacheDir, stampFile)
	if slices.Contains(readStamps(mark), stamp) {
		return nil
	}
	if err := os.MkdirAll(s.cacheDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of compiled code: %w", err)
	}
	// A link is not followed where the files are made readable.
	folder, err := filepath.EvalSymlinks(s.cacheDir)
	if err != nil {
		return fmt.Errorf("find the folder of compiled code: %w", err)
	}
	s.cacheDir = folder
	// If two processes filled the folder at once, the later would replace files that
	// are already readable to all by files that only its own user can read.
	lock := flock.New(filepath.Join(s.cacheDir, "lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("lock the folder of compiled code: %w", err)
	}
	defer func() { _ = lock.Close() }()
	known := readStamps(mark)
	if slices.Contains(known, stamp) { // filled while this process waited
		return nil
	}
	arguments := append(slices.Clone(s.command[1:]), "-cache", s.cacheDir, "-warm")
	// If it ended with the caller, callers with less time than it takes would begin it again
	// and again.
	filling, stop := context.WithTimeout(context.WithoutCancel(ctx), fillTimeout)
	defer stop()
	cmd := exec.CommandContext(filling, s.command[0], arguments...)
	cmd.Env = []string{} // nothing of the server's environment
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile WebAssembly into %s: %w: %.500s", s.cacheDir, err, said)
	}
	if err := proc.Readable(s.cacheDir); err != nil {
		return fmt.Errorf("let workers read the compiled code: %w", err)
	}
	if err := syncFiles(s.cacheDir); err != nil {
		return fmt.Errorf("put the compiled code on the disk: %w", err)
	}
	known = append(known[max(0, len(known)+1-maxStamps):], stamp)
	if err := atomicfile.Write(mark, []byte(strings.Join(known, "\n")), 0o644); err != nil {
		return fmt.Errorf("note that the code is compiled: %w", err)
	}
	return nil
}

// syncFiles syncs the files in a folder to the disk, before the stamp says that they are there.
// Windows syncs only files that are open for writing.
func syncFiles(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() && !entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(file.Sync(), file.Close())
	})
}

// readStamps returns the stamps in the file, or none if it does not exist.
func readStamps(file string) []string {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return strings.Split(string(text), "\n")
}

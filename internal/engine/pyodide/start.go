package pyodide

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/worker"
	files "github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

//go:embed main.mjs reader.mjs boot.py
var guestFiles embed.FS

// starter starts guests.
type starter struct {
	o        Options
	launcher *worker.Launcher

	mu     sync.Mutex
	folder string // with the snapshot, once it exists
}

const (
	// startTimeout also covers making the snapshot, 7 s of CPU.
	startTimeout = time.Minute
	// processMemory bounds a whole process: the largest program, its allocations
	// outside the interpreter's memory, and the 200 MiB that Deno itself takes.
	processMemory = 2 << 30
)

// start starts a guest and waits for its hello.
func (s *starter) start(ctx context.Context) (*worker.Guest, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	installed, err := s.o.Find()
	if err != nil {
		return nil, unavailable(err)
	}
	folder, err := s.prepare(ctx, installed)
	if err != nil {
		return nil, unavailable(err)
	}
	p, err := s.launcher.Start(worker.Spec{
		Path: installed.Deno, Args: command(worker.FolderArg), Env: environment(worker.FolderArg), Folder: folder, Memory: processMemory, Seccomp: lockdown.Standard,
	})
	if err != nil {
		return nil, unavailable(err)
	}
	g, err := worker.Accept(ctx, p)
	if err != nil {
		return nil, unavailable(err)
	}
	return g, nil
}

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no Pyodide could be started: %w", err).
		WithCLIHint("toolroom setup engines --with pyodide installs Deno and Pyodide")
}

// command returns the command that runs a folder's files. Only that folder may be
// read, and only until the program runs.
func command(folder string) []string {
	return []string{
		"deno", "run", "--quiet", "--no-prompt", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--no-code-cache",
		"--allow-read=" + folder, folder + "/main.mjs",
	}
}

// environment is the whole environment. Deno wants a folder for a cache, and works
// without one if it cannot write.
func environment(folder string) []string {
	return []string{"DENO_DIR=" + folder + "/cache", "NO_COLOR=1"}
}

const snapshotFile = "snapshot.bin"

// prepare makes the folder that guests start from, unless it exists.
func (s *starter) prepare(ctx context.Context, from Installed) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(s.folder); s.folder != "" && err == nil { // else the cache was emptied
		return s.folder, nil
	}
	texts, sum, err := s.ownFiles(from)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(s.o.CacheDir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of snapshots: %w", err)
	}
	lock := flock.New(filepath.Join(s.o.CacheDir, "lock"), flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return "", fmt.Errorf("lock the folder of snapshots: %w", err)
	}
	defer func() { _ = lock.Close() }()
	folder := filepath.Join(s.o.CacheDir, sum)
	if _, err := os.Stat(folder); err == nil {
		s.folder = folder
		return folder, nil
	}
	temp, err := os.MkdirTemp(s.o.CacheDir, "new")
	if err != nil {
		return "", fmt.Errorf("make the folder of snapshots: %w", err)
	}
	defer os.RemoveAll(temp) // if it has not been moved
	if err := fillFolder(ctx, temp, texts, from); err != nil {
		return "", fmt.Errorf("make the snapshot of Pyodide: %w", err)
	}
	if err := os.Rename(temp, folder); err != nil {
		return "", fmt.Errorf("keep the snapshot of Pyodide: %w", err)
	}
	s.folder = folder
	return folder, nil
}

// ownFiles returns the files that are part of this binary, and the name of the folder for them. The
// name depends on the content of all files and on the installed parts.
func (s *starter) ownFiles(from Installed) (map[string][]byte, string, error) {
	list, err := json.Marshal(files.PythonFiles())
	if err != nil {
		return nil, "", err
	}
	texts := map[string][]byte{"guest.json": list}
	sum := sha256.New()
	_, _ = sum.Write(list) // documented to never fail
	for _, name := range []string{"boot.py", "main.mjs", "reader.mjs"} {
		texts[name], _ = guestFiles.ReadFile(name) // the file is embedded
		_, _ = sum.Write(texts[name])
	}
	for _, path := range append(folderFiles(from), from.Deno) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, "", err
		}
		fmt.Fprintln(sum, path, info.Size(), info.ModTime().UnixNano())
	}
	return texts, hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

func folderFiles(from Installed) []string {
	var paths []string
	for _, name := range from.Files {
		paths = append(paths, filepath.Join(from.Pyodide, name))
	}
	return paths
}

// fillFolder copies everything that a guest needs into a folder. The guest runs as another user,
// who can read only this folder.
func fillFolder(ctx context.Context, folder string, texts map[string][]byte, from Installed) error {
	for _, path := range folderFiles(from) {
		if err := copyFile(filepath.Join(folder, filepath.Base(path)), path); err != nil {
			return err
		}
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := snapshot(ctx, from.Deno, folder); err != nil {
		return err
	}
	return proc.Readable(folder)
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return cmp.Or(err, out.Close())
}

// snapshot starts an interpreter without a program, and saves its memory.
func snapshot(ctx context.Context, deno, folder string) error {
	var memory, said bytes.Buffer
	cmd := exec.CommandContext(ctx, deno, append(command(folder)[1:], "snapshot")...)
	cmd.Env = environment(folder)
	cmd.Stdout, cmd.Stderr = &memory, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %.500s", err, said.Bytes())
	}
	return os.WriteFile(filepath.Join(folder, snapshotFile), memory.Bytes(), 0o644)
}

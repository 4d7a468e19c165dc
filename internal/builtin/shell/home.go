package shell

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/source"
)

// sandboxHome is the path of HOME in the sandbox. No folder of the operator is there.
const sandboxHome = "/run/home"

// homeOf returns the folder that is HOME for a caller's commands in the sandbox, so that
// compilers and package managers can keep their caches. It is empty if there is none.
func (s *Shell) homeOf(ctx context.Context, req *source.Request, runtime string) (string, error) {
	if s.o.State == "" || runtime == RuntimeHost {
		return "", nil
	}
	dir := filepath.Join(s.o.State, digest(identity.Owner(req.Identity)), "home")
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// So that git commit in a command has the same author as git:commit.
	name, email := s.Author(ctx)
	line := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", " ")
	text := "[user]\n\tname = \"" + line.Replace(name) + "\"\n\temail = \"" + line.Replace(email) + "\"\n"
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	// Made elsewhere and moved: in its place, another command of the caller could already put
	// a link where this one writes.
	made, err := os.MkdirTemp(filepath.Dir(dir), "new-home-*")
	if err != nil {
		return "", err
	}
	if err = os.WriteFile(filepath.Join(made, ".gitconfig"), []byte(text), 0o600); err == nil {
		err = os.Rename(made, dir)
	}
	if err == nil {
		return dir, nil
	}
	os.RemoveAll(made)
	if _, there := os.Stat(dir); there == nil { // meanwhile
		return dir, nil
	}
	return "", err
}

// homes caches the sizes of homes, by folder.
type homes struct{ all sync.Map } // of *measured

type homeSize struct {
	mu    sync.Mutex // held while the home is measured; calls in other homes do not wait
	size  int64
	until time.Time // when it is measured again
}

const (
	// measureAgain is how long a measured size is used. For a home with many files it is
	// measureShare times as long as measuring takes, if that is more.
	measureAgain = 30 * time.Second
	measureShare = 50
)

// freesSpace matches commands that help to free space and do nothing else. They run even if the
// home is full.
var freesSpace = regexp.MustCompile(`^\s*(rm|du|ls)([ \t]([^;&|<>()$\x60\n]|\$[A-Za-z{])*)?\s*$`)

// checkHome returns an error if a home is full. One command can still exceed the limit, because
// its home is not measured while it runs.
func (s *Shell) checkHome(dir string) error {
	if s.o.HomeSize <= 0 || dir == "" {
		return nil
	}
	one, _ := s.homes.all.LoadOrStore(dir, &homeSize{})
	known := one.(*homeSize)
	known.mu.Lock()
	defer known.mu.Unlock()
	if now := time.Now(); now.After(known.until) || known.size > s.o.HomeSize {
		known.size = sizeOf(dir)
		known.until = now.Add(max(measureAgain, measureShare*time.Since(now)))
	}
	if known.size <= s.o.HomeSize {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeResourceLimit, "the home folder of commands is full: it has %d bytes, and %d is the most", known.size, s.o.HomeSize).
		WithHint("free some: a single rm, du or ls still runs, such as rm -rf ~/.cache; or raise builtin.shell.home")
}

// sizeOf returns the bytes of the files in a folder. It ignores files that disappear meanwhile.
func sizeOf(dir string) int64 {
	var size int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is left out
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return nil
	})
	return size
}

// Author returns the author of commits from the operator's configuration of git, which is not
// visible in the sandbox.
func (s *Shell) Author(ctx context.Context) (name, email string) {
	s.author.Do(func() {
		read := func(key string) string {
			out, _ := exec.CommandContext(context.WithoutCancel(ctx), "git", "config", "--global", "--get", key).Output() // an error means that it is not set
			return strings.TrimSpace(string(out))
		}
		s.name, s.email = read("user.name"), read("user.email")
		s.name = cmp.Or(s.name, "Toolroom")
		s.email = cmp.Or(s.email, "toolroom@localhost")
	})
	return s.name, s.email
}

// homeDir returns the value of HOME in the sandbox.
func (c command) homeDir() string {
	if c.home == "" {
		return lockdown.WorkDir
	}
	return sandboxHome
}

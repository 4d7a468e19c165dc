package shell

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/source"
)

// homeInside is the home of commands in the sandbox, where no folder of the operator is.
const homeInside = "/run/home"

// homeOf returns the folder that is the home of a caller's commands in the sandbox: compilers
// and package managers keep their caches there. It is empty if there is none.
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

// Author returns the author of commits: that of the operator's own configuration, which is
// not visible in the sandbox.
func (s *Shell) Author(ctx context.Context) (name, email string) {
	s.author.Do(func() {
		read := func(key string) string {
			out, _ := exec.CommandContext(context.WithoutCancel(ctx), "git", "config", "--global", "--get", key).Output() // an error means that it is not set
			return strings.TrimSpace(string(out))
		}
		s.name, s.email = read("user.name"), read("user.email")
		if s.name == "" {
			s.name = "Toolroom"
		}
		if s.email == "" {
			s.email = "toolroom@localhost"
		}
	})
	return s.name, s.email
}

// homeDir returns the value of HOME in the sandbox.
func (c command) homeDir() string {
	if c.home == "" {
		return lockdown.WorkDir
	}
	return homeInside
}

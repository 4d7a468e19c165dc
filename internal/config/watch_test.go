package config_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/config"
)

type change struct {
	config *config.Config
	err    error
}

// watch returns the changes of a file from its present text on.
func watch(t *testing.T, path string) <-chan change { return watchVerified(t, path, nil) }

func watchVerified(t *testing.T, path string, verify config.Verify) <-chan change {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	changes := make(chan change, 16)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- config.WatchVerified(ctx, path, "", text, verify, func(c *config.Config, err error) { changes <- change{c, err} })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return changes
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	put(t, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestWatchSeesWritesReplacementsMistakesAndRemoval(t *testing.T) {
	t.Parallel()
	path := file(t, "")
	changes := watch(t, path)

	put(t, path, "server: {listen: 'a:1'}")
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:1" {
		t.Errorf("written: %+v", c)
	}
	replace(t, path, "server: {listen: 'a:2'}")
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:2" {
		t.Errorf("replaced: %+v", c)
	}
	put(t, path, "sorces: {}")
	if c := <-changes; c.config != nil || c.err == nil || !strings.Contains(c.err.Error(), "did you mean sources?") {
		t.Errorf("mistaken: %+v", c)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; !errors.Is(c.err, fs.ErrNotExist) {
		t.Errorf("removed: %+v", c)
	}
	put(t, path, "server: {listen: 'a:3'}")
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:3" {
		t.Errorf("made anew: %+v", c)
	}
}

func TestWatchSeesAFileThatIsMadeLater(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "toolroom.yaml")
	changes := watch(t, path)
	if c := <-changes; !errors.Is(c.err, fs.ErrNotExist) {
		t.Errorf("missing: %+v", c)
	}
	put(t, path, "server: {listen: 'a:1'}")
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:1" {
		t.Errorf("got %+v", c)
	}
}

func TestWatchIsSilentWhenTheTextStays(t *testing.T) {
	t.Parallel()
	path := file(t, "server: {listen: 'a:1'}")
	changes := watch(t, path)
	time.Sleep(300 * time.Millisecond) // longer than the first look takes
	replace(t, path, "server: {listen: 'a:1'}")
	put(t, filepath.Join(filepath.Dir(path), "other"), "x")
	// The change after them is the next that is reported.
	time.Sleep(300 * time.Millisecond) // longer than edits are gathered
	put(t, path, "server: {listen: 'a:2'}")
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:2" {
		t.Errorf("got %+v", c)
	}
}

func TestWatchFollowsLinks(t *testing.T) {
	t.Parallel()
	target := file(t, "")
	link := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	changes := watch(t, link)
	replace(t, target, "server: {listen: 'a:1'}")
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:1" {
		t.Errorf("the target replaced: %+v", c)
	}
	other := filepath.Join(filepath.Dir(link), "other")
	put(t, other, "server: {listen: 'a:2'}")
	if err := os.Symlink(other, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; c.err != nil || c.config.Server.Listen != "a:2" {
		t.Errorf("the link replaced: %+v", c)
	}
}

func TestWatchSaysWhenTheFolderIsMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "no", "toolroom.yaml")
	err := config.WatchVerified(t.Context(), path, "", nil, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "cannot watch the folder of "+path) {
		t.Errorf("got %v", err)
	}
}

func TestWatchReadsAnEditOnceItIsTrusted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), config.FileName)
	var edited, trusted atomic.Bool
	changes := watchVerified(t, path, func(string, []byte) error {
		if edited.Load() && !trusted.Load() {
			return errors.New("not trusted")
		}
		return nil
	})
	edited.Store(true)
	if err := config.AddSource(path, "notes", config.Source{MCP: &config.MCP{URL: "http://localhost:1"}}, false, nil, func([]byte, []byte) error {
		time.Sleep(500 * time.Millisecond) // long enough for a watcher that does not wait
		trusted.Store(true)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if c := <-changes; c.err != nil {
		t.Errorf("the watcher read an edit before it was trusted: %v", c.err)
	}
}

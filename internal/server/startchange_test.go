package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// TestAChangeDuringTheStartIsApplied changes the config and a rule file after they were read
// and before the server watches them.
func TestAChangeDuringTheStartIsApplied(t *testing.T) {
	t.Parallel()
	const rule = "permit (principal, action, resource);\n"
	for name, c := range map[string]struct{ file, text string }{
		"config": {"toolroom.yaml", "server: {listen: \"127.0.0.1:0\"}\npolicy: {rules: [rules.cedar]}\ntools: {deny: [\"time:*\"]}\n"},
		"rules":  {"rules.cedar", rule + "forbid (principal, action, resource in Namespace::\"time\");\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("toolroom.yaml", "server: {listen: \"127.0.0.1:0\"}\npolicy: {rules: [rules.cedar]}\n")
			write("rules.cedar", rule)
			file := filepath.Join(dir, "toolroom.yaml")
			r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(dir, "home"), ConfigFile: file, Workspace: dir})
			if err != nil {
				t.Fatal(err)
			}
			if applied, now := r.PolicyStamps(); applied != now {
				t.Errorf("an unchanged policy would be read again: %q, %q", applied, now)
			}
			write(c.file, c.text)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- Serve(ctx, r, Options{ConfigFile: file}) }()
			for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				e, err := r.Explain(t.Context(), "time:now", toolroom.Identity{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if e.Effect == toolroom.VerdictDeny {
					break
				}
				if time.Now().After(end) {
					t.Fatal("the change was not applied")
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

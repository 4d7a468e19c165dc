package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

const topSecret = "TOPSECRET of the operator"

// smallGuest builds the guest of a sandbox, which starts in a tenth of the time of the test
// binary, and is what people run.
func smallGuest(t *testing.T) string {
	t.Helper()
	path, err := builtGuest()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtGuest = sync.OnceValues(func() (string, error) {
	path := filepath.Join(compiled(), "toolroom-guest")
	return path, enginetest.BuildGuest(path)
})

// newRuled returns a room with a rule, whose commands run in the shell's sandbox.
func newRuled(t *testing.T, top, rule string) *app.App {
	t.Helper()
	file, work := filepath.Join(top, "toolroom.yaml"), filepath.Join(top, "work")
	config := fmt.Sprintf("tools: {deny: [%q]}\nbuiltin: {shell: {network: host}}\n", rule)
	self, err := os.Executable()
	if err = errors.Join(err, os.MkdirAll(work, 0o700), os.WriteFile(file, []byte(config), 0o600)); err != nil {
		t.Fatal(err)
	}
	return open(t, app.Options{ConfigFile: file, Home: filepath.Join(top, "home"), Workspace: work, Helper: self, Guest: app.Guest{Path: smallGuest(t)}})
}

// Explain says which rules are enforced and which are judged only.
func TestExplainSaysHowRulesHold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule, tool, command string
		enforced            bool
		effect              string
	}{
		{"effect:command:rm", "shell:exec", "make", true, "allow"},
		{"effect:command:rm", "shell:exec", "rm x", true, "deny"},
		{"effect:command:rm", "shell:exec", "$X x", true, "allow"},
		{"effect:command:git push*", "shell:exec", "make", true, "allow"},
		{"effect:command:git push*", "shell:exec", "git status; $X", false, "deny"},
		{"effect:command:git push*", "shell:exec", "git status", false, "allow"},
		{"effect:command", "shell:exec", "ls", false, "deny"},
		{"effect:file:/srv/secret/**", "shell:exec", "cat *", true, "allow"},
		{"effect:file:/srv/*.key", "shell:exec", "cat *", true, "allow"},
		{"effect:command:/usr/bin/rm", "shell:exec", "$X x", true, "allow"},
		{"effect:command:/usr/bin/rm", "shell:exec", "/usr/bin/rm x", true, "deny"},
		{"effect:command:*/rm", "shell:exec", "$X x", true, "allow"},
		{"effect:command:./*", "shell:exec", "$X x", false, "deny"},
		{"effect:file:**/.env", "shell:exec", "cat *", true, "allow"},
		{"effect:file:/srv/*/key", "shell:exec", "cat *", true, "allow"},
		{"effect:file:/srv/**/key", "shell:exec", "cat *", true, "allow"},
		{"effect:file:/srv/*/key", "shell:exec", "cat /srv/a/key", true, "deny"},
		{"effect:file:/**", "shell:exec", "cat *", false, "deny"},
		{"effect:file.read:/proc/*/environ", "shell:exec", "cat *", false, "deny"},
		{"effect:file.delete:/srv/one", "shell:exec", "rm *", true, "allow"},
		{"effect:file.delete:/srv/**", "shell:exec", "rm *", true, "allow"},
		{"effect:host:*.evil.example", "shell:exec", "curl $X", true, "allow"},
		{"effect:host.delete:*.evil.example", "shell:exec", "curl -X DELETE $X", true, "allow"},
		{"effect:host.delete:*.evil.example", "shell:exec", "curl http://a.evil.example; $X", false, "deny"},
		{"effect:send", "shell:exec", "ls", false, "deny"},
		{"effect:file:/srv/secret/**", "file:read", "", true, "allow"},
	} {
		r := newRuled(t, t.TempDir(), tt.rule)
		arguments := fmt.Sprintf(`{"command": %q}`, tt.command)
		if tt.command == "" {
			arguments = `{"path": "helper.sh"}`
		}
		e, err := r.Explain(t.Context(), tt.tool, toolroom.Identity{}, []byte(arguments))
		if err != nil {
			t.Fatal(err)
		}
		if len(e.Rules) != 1 || e.Rules[0].Enforced != tt.enforced || strings.HasPrefix(e.Rules[0].Describe(), "enforced: ") != tt.enforced || string(e.Effect) != tt.effect {
			t.Errorf("%s, %s %q: %s, %+v", tt.rule, tt.tool, tt.command, e.Effect, e.Rules)
		}
	}
}

// A replay knows that a rule is enforced.
func TestAReplayKnowsWhatIsEnforced(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	secret := filepath.Join(top, "work", "keep", "file.txt")
	r := newRuled(t, top, "effect:file:"+filepath.Dir(secret)+"/**")
	if err := errors.Join(os.MkdirAll(filepath.Dir(secret), 0o700), os.WriteFile(secret, []byte(topSecret), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"$X; true", "python3 --version", "cat " + secret} {
		result := r.Run(t.Context(), toolroom.Call{Tool: "shell:exec", Arguments: fmt.Appendf(nil, `{"command": %q}`, line)})
		if code := toolroom.CodeOf(result.Err()); code == toolroom.CodeInvalidArguments || code == toolroom.CodeToolNotFound || code == toolroom.CodeInternal {
			t.Fatalf("%s: %+v", line, result.Error)
		}
	}
	replayed, err := r.ReplayPolicy(t.Context(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if replayed.Calls != 3 || len(replayed.Changes) != 0 {
		t.Errorf("%+v", replayed)
	}
}

//go:build integration

package integration

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

// programResult is the value of a call of a command-line program.
type programResult struct {
	Stdout   string
	ExitCode int `json:"exit_code"`
	OK       bool
}

func (r *room) callProgram(code int, tool, args string) programResult {
	r.t.Helper()
	return decode[programResult](r.t, string(r.callJSON(code, tool, args).Value))
}

func TestGitAsASource(t *testing.T) {
	r := newRoom(t, nil)
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "."},
		{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "the first"},
	} {
		if out := r.runProgram("git", append([]string{"-C", r.files}, args...)...); out.code != 0 {
			t.Fatalf("git %q: %s", args, out.stderr)
		}
	}
	r.toolroom(0, "init", "--force")
	r.toolroom(0, "sources", "add", "git", "--cli", "git", "--cwd", r.files)
	r.write("new.txt", "new")

	t.Run("flags are typed parameters", func(t *testing.T) {
		r := r.in(t)
		if got := r.callProgram(0, "git:status", `{"short": true, "branch": true}`); got.Stdout != "## main\n?? new.txt\n" || !got.OK {
			t.Errorf("status is %+v", got)
		}
		if got := r.toolroom(0, "call", "git:status", "short=true").stdout; got != "?? new.txt\n" {
			t.Errorf("status printed %q", got)
		}
		r.toolroom(toolroom.ExitInvalidArguments, "call", "git:status", `{"short": "maybe"}`)
	})
	t.Run("log takes the flags that git log has", func(t *testing.T) {
		r := r.in(t)
		if got := r.callProgram(0, "git:log", `{"max_count": 1, "format": "%s"}`); got.Stdout != "the first\n" {
			t.Errorf("log is %+v", got)
		}
	})
	t.Run("a flag with an optional value is set by true", func(t *testing.T) {
		r := r.in(t)
		if got := r.toolroom(0, "call", "git:status", "porcelain=true").stdout; got != "?? new.txt\n" {
			t.Errorf("status printed %q", got)
		}
	})
	t.Run("a positional cannot become a flag", func(t *testing.T) {
		r := r.in(t)
		written := filepath.Join(r.files, "injected")
		result := r.callJSON(toolroom.ExitInvalidArguments, "git:log", encode(t, object{"_": []string{"--output=" + written}}))
		if result.Error.Code != toolroom.CodeInvalidArguments {
			t.Errorf("the error is %+v", result.Error)
		}
		r.callJSON(toolroom.ExitInvalidArguments, "git:log", encode(t, object{"output=" + written: true}))
		if _, err := os.Stat(written); err == nil {
			t.Error("git wrote a file")
		}
	})
	t.Run("what a shell would run is text", func(t *testing.T) {
		r := r.in(t)
		r.callJSON(toolroom.ExitFailed, "git:show", encode(t, object{"_": []string{"$(touch injected); touch injected"}}))
		if _, err := os.Stat(filepath.Join(r.files, "injected")); err == nil {
			t.Error("a shell ran")
		}
	})
	t.Run("a program that fails is a failed call", func(t *testing.T) {
		r := r.in(t)
		result := r.callJSON(toolroom.ExitFailed, "git:show", `{"_": ["nothing"]}`)
		if got := decode[programResult](t, string(result.Value)); result.Error.Code != toolroom.CodeExecutionFailed || got.ExitCode != 128 || got.OK {
			t.Errorf("%+v, %+v", got, result.Error)
		}
	})
}

func TestCurlAsASource(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(r.Method + " " + r.UserAgent()))
	}))
	defer service.Close()
	r := newRoom(t, object{"curl": object{"cli": object{"command": "curl"}}})
	if got := r.callProgram(0, "curl:curl", encode(t, object{"silent": true, "user_agent": "toolroom test", "data": "x", "_": []string{service.URL}})); got.Stdout != "POST toolroom test" {
		t.Errorf("curl answered %+v", got)
	}
	if got := r.callProgram(toolroom.ExitFailed, "curl:curl", encode(t, object{"silent": true, "fail": true, "_": []string{service.URL + "/missing"}})); got.ExitCode != 22 {
		t.Errorf("curl answered %+v, want exit code 22", got)
	}
}

func TestProgramsOutsideTheAllowlistAreDenied(t *testing.T) {
	r := newRoom(t, object{"curl": object{"cli": object{"command": "curl"}}}, object{"cli": object{"mode": "allowlist", "allow": []string{"git"}}})
	out := r.runProgram(binary(t), "call", "curl:curl", "version=true")
	if out.code == 0 || strings.Contains(out.stdout, "libcurl") {
		t.Errorf("curl ran: %+v", out)
	}
}

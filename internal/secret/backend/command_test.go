package backend_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

var ref = secret.Ref{Scope: "gh", Name: "token"}

// script is a store over a program of the test.
func script(t *testing.T, text string, words ...secret.Template) *backend.Command {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	argv := append([]secret.Template{secret.Template(file)}, words...)
	return backend.NewCommand(backend.CommandOptions{Argv: argv, Own: append(argv, "{identity}"), Env: []string{"PATH=/usr/bin:/bin"}, Timeout: 5 * time.Second, Owner: proc.Owner()})
}

func TestWhatTheProgramPrintsIsTheValue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		ref     secret.Ref
		want    string
	}{
		"a line":         {`echo "$1 $2"`, ref, "gh/token {literal}"},
		"no line end":    {`printf %s "$1"`, ref, "gh/token"},
		"several lines":  {`printf 'a\nb\n'`, ref, "a\nb"},
		"own":            {`echo "$3"`, ref.Of("ann; rm -rf $HOME"), "ann; rm -rf $HOME"},
		"no environment": {`echo "-$SECRET_OF_OTHERS-"`, ref, "--"},
	} {
		got, err := script(t, c.program, "{scope}/{name}", "{literal}").Get(t.Context(), c.ref)
		if got != c.want || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

func TestAFailingProgramTellsNothingOfWhatItWrote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		program string
		code    toolroom.Code
	}{
		"nothing there": {`echo hunter22 >&2; exit 1`, toolroom.CodeNotFound},
		"fails":         {`echo hunter22; exit 1`, toolroom.CodeUpstreamError},
		"is killed":     {`kill -9 $$`, toolroom.CodeUpstreamError},
		"too much":      {`head -c 100000 /dev/zero | tr '\0' x; echo hunter22`, toolroom.CodeUpstreamError},
	} {
		got, err := script(t, c.program).Get(t.Context(), ref)
		e := toolroom.AsError(err)
		if got != "" || e.Code != c.code || strings.Contains(e.Message+e.Hint, "hunter22") {
			t.Errorf("%s: got %q, %v; %s", name, got, err, e.Hint)
		}
	}
	if _, err := script(t, "echo value").Get(t.Context(), ref.Of("--help")); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("an identity became a flag: %v", err)
	}
}

func TestAProgramThatHangsIsEnded(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "alive")
	s := backend.NewCommand(backend.CommandOptions{
		Argv:    []secret.Template{"/bin/sh", "-c", secret.Template("sleep 60; touch " + marker)},
		Timeout: 50 * time.Millisecond,
	})
	began := time.Now()
	if _, err := s.Get(t.Context(), ref); toolroom.CodeOf(err) != toolroom.CodeUpstreamError || !strings.Contains(err.Error(), "too long") || time.Since(began) > 30*time.Second {
		t.Errorf("got %v after %s", err, time.Since(began))
	}
}

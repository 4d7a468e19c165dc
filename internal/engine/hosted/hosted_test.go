package hosted_test

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// The test's own binary is the guest.
func TestMain(m *testing.M) {
	if os.Getenv(guest.WorkEnv) != "" || len(os.Args) > 1 && os.Args[1] == guest.MainArg {
		os.Exit(guest.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestTheHostRunsPrograms(t *testing.T) {
	t.Parallel()
	self := selfWith(t, "python3", "node")
	enginetest.Run(t, enginetest.Options{
		New: func(t *testing.T) engine.Engine {
			return hosted.New(&host.Driver{Work: t.TempDir(), Owner: proc.Owner(), Environ: os.Environ()})
		},
		Languages: []string{"python", "javascript"},
		Sandbox:   sandbox.Spec{Profile: sandbox.Dev, Guest: self},
	})
}

func TestTheProcessSandboxRunsPrograms(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the process sandbox is Linux's")
	}
	t.Parallel()
	self := selfWith(t, "/usr/bin/python3", "/usr/bin/node")
	enginetest.Run(t, enginetest.Options{
		New: func(*testing.T) engine.Engine {
			return hosted.New(process.New(self, []string{guest.MainArg}))
		},
		Languages: []string{"python", "javascript"},
		Sandbox:   sandbox.Spec{Guest: self, Args: []string{guest.MainArg}},
	})
}

func TestTypeScriptRunsInEverySandbox(t *testing.T) {
	t.Parallel()
	self := selfWith(t, "node")
	e := hosted.New(&host.Driver{Work: t.TempDir(), Owner: proc.Owner(), Environ: os.Environ()})
	job := engine.Job{
		Run: "run-ts", Owner: "tester", Sandbox: sandbox.Spec{Profile: sandbox.Dev, Guest: self},
		Program: bridge.Program{
			Language: "typescript", Name: "main.ts", Limits: bridge.Limits{Wall: 20_000},
			Source: "interface Point { x: number }\nconst p: Point = {x: 2}\n\nif (p.x === 2) throw new Error(`no ${p.x as number}`)\n",
		},
	}
	result, err := e.Run(t.Context(), job, nil)
	if err != nil {
		t.Fatal(err)
	}
	if f := result.Outcome.Failure; f == nil || f.Message != "no 2" || f.Line != 4 || f.File != "main.ts" {
		t.Errorf("got %+v, want the error of line 4 of main.ts", f)
	}
}

// selfWith is this binary, on a machine that has the programs.
func selfWith(t *testing.T, programs ...string) string {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Fatalf("this is tested with %s, which is not there", name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

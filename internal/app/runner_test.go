package app_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// openWithRunner opens a room with a runner and a config.
func openWithRunner(t *testing.T, runner, config string) *app.App {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: t.TempDir(), ConfigFile: file, Runner: runner, Version: "b2"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func script(t *testing.T, text string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	path := filepath.Join(t.TempDir(), "toolroom-runner")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestARunnerThatIsMissingOrOfAnotherBuildDisablesItsRuntimesAlone(t *testing.T) {
	t.Parallel()
	other := script(t, `echo '{"protocol": 1, "build": "b1", "drivers": []}'; cat`)
	for name, tt := range map[string]struct{ runner, config, want, fix string }{
		"missing":              {"/no/such/toolroom-runner", "", "is missing: /no/such/toolroom-runner is not a program", "code: {runtimes: {runner:"},
		"missing in PATH":      {"no-such-runner", "", "is neither beside this program nor in PATH", "make build builds both"},
		"missing, by config":   {other, "code: {runtimes: {runner: /no/such/runner}}", "/no/such/runner is not a program", "code: {runtimes: {runner:"},
		"of another build":     {other, "", "is of build b1, and this program of build b2", "from one package"},
		"another, by config":   {"/no/such/toolroom-runner", "code: {runtimes: {runner: " + other + "}}", "is of build b1", "from one package"},
		"it ends at its start": {script(t, "echo broken >&2; exit 3"), "", "ended unexpectedly (exit status 3): broken", "starts it again"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openWithRunner(t, tt.runner, tt.config)
			var found bool
			for _, c := range r.Doctor(t.Context(), nil) {
				if c.Name == app.RunnerName {
					found = true
					if c.Status != app.CheckWarn || !strings.Contains(c.Detail, tt.want) || !strings.Contains(c.Fix, tt.fix) {
						t.Errorf("doctor says %+v", c)
					}
				}
			}
			if !found {
				t.Error("doctor does not mention the runner")
			}
			for _, e := range r.Engines(t.Context()) {
				foreign := slices.Contains([]string{"gvisor", "docker", "containerd", "kata", "kubernetes"}, e.Name)
				if foreign && (e.State == sandbox.Available || !strings.Contains(e.Reason, tt.want)) || e.Name == "host" && e.State != sandbox.Available {
					t.Errorf("%s is %s: %s", e.Name, e.State, e.Reason)
				}
			}
			_, err := r.Driver("docker")
			if err != nil {
				t.Error(err)
			}
			result, err := r.Execute(t.Context(), toolroom.Call{}, toolroom.Program{Language: "shell", Code: "true", Runtime: "docker"})
			if err != nil || toolroom.CodeOf(result.Error) != toolroom.CodeSandboxUnavailable || !strings.Contains(result.Error.Message, tt.want) {
				t.Errorf("a program under docker: %v, %v", err, result.Error)
			}
		})
	}
}

func TestAProgramOfTheConfigIsARuntime(t *testing.T) {
	t.Parallel()
	r := openWithRunner(t, "", "code: {runtimes: {programs: {mine: {command: /no/such/driver}}}, warm: {mine: {size: 0}}}")
	if _, err := r.Driver("docker"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("without a runner there is docker: %v", err)
	}
	d, err := r.Driver("mine")
	if err != nil {
		t.Fatal(err)
	}
	if p := d.Probe(t.Context()); p.State == sandbox.Available || !strings.Contains(p.Reason, "/no/such/driver") {
		t.Errorf("the probe is %+v", p)
	}
}

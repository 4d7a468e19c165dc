//go:build integration

package runtimes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/sandbox"
)

// The built-in commands run in each driver that can show folders of this machine.
func TestCommandsRunInContainers(t *testing.T) {
	for runtime, driver := range map[string]func(t *testing.T) sandbox.Driver{
		"docker": func(t *testing.T) sandbox.Driver {
			d, _ := dockerDriver(t, docker.Options{})
			return d
		},
		"docker/runsc": func(t *testing.T) sandbox.Driver {
			program(t, "runsc", "gvisor.dev/gvisor/runsc")
			d, _ := dockerDriver(t, docker.Options{})
			return d
		},
		"containerd": func(t *testing.T) sandbox.Driver {
			return containerdDriver(t, containerd.Options{Address: containerdEngine(t)})
		},
		"gvisor": func(t *testing.T) sandbox.Driver {
			program(t, "runsc", "gvisor.dev/gvisor/runsc")
			return gvisor.New(gvisor.Options{})
		},
	} {
		t.Run(strings.ReplaceAll(runtime, "/", " "), func(t *testing.T) {
			t.Parallel()
			top := folder(t)
			work, file := filepath.Join(top, "work"), filepath.Join(top, "toolroom.yaml")
			if err := os.MkdirAll(filepath.Join(work, "secret"), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{file: "builtin: {shell: {runtime: " + runtime + "}}\ntools: {deny: ['effect:file.read:**/secret/**']}\n", filepath.Join(work, "secret", "key"): "TOPSECRET"} {
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := driver(t)
			room, err := app.Open(t.Context(), app.Options{
				Home: filepath.Join(top, "home"), Workspace: work, ConfigFile: file, Environ: []string{"HOME=" + top}, Guest: app.Guest{Path: made.guest},
				Drivers: func(app.Runtimes) []sandbox.Driver { return []sandbox.Driver{d} },
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { room.Close() })
			exec := func(command string, timeout int) *toolroom.Result {
				return room.Run(t.Context(), toolroom.Call{Tool: "shell:exec", Arguments: toolroom.Args{"command": command, "session": "s", "timeout": timeout}.JSON()})
			}
			r := exec("echo made > a.txt; mkdir sub; cd sub; export FOO='two words'; touch ~/kept; id -u", 60_000)
			if !r.OK() || !strings.Contains(string(r.Value), `"isolation":"`+strings.Split(runtime, "/")[0]) {
				t.Fatalf("%s %v", r.Value, r.Error)
			}
			if text, err := os.ReadFile(filepath.Join(work, "a.txt")); string(text) != "made\n" {
				t.Errorf("%q %v", text, err)
			}
			if r := exec(`echo "$FOO $PWD"; ls ~`, 60_000); !r.OK() || r.Content[0].Text != "two words "+work+"/sub\nkept" {
				t.Errorf("%s %v", r.Value, r.Error)
			}
			for _, line := range []string{"cat ../s*t/key", "mv ../secret ../other; cat ../other/key", "cat " + top + "/toolroom.yaml " + top + "/home/*", "cat < /dev/tcp/1.1.1.1/80"} {
				if r := exec(line, 60_000); r.OK() || strings.Contains(string(r.Value), "TOPSECRET") {
					t.Errorf("%s: %s", line, r.Value)
				}
			}
			if r := exec("echo begun; sleep 300", 2000); r.Error == nil || r.Error.Code != toolroom.CodeTimeout || !strings.Contains(r.Error.Message, "begun") {
				t.Errorf("%s %v", r.Value, r.Error)
			}
		})
	}
}

//go:build integration

package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// If there is no Node, JavaScript programs run in Deno.
func TestDenoPassesTheSuite(t *testing.T) {
	deno, err := filepath.Abs("../node/node_modules/@deno/linux-x64-glibc/deno")
	if err != nil {
		t.Fatal(err)
	}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	guest := filepath.Join(t.TempDir(), "toolroom-guest")
	if out, err := exec.Command("go", "build", "-o", guest, "../../cmd/toolroom-guest").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bin := t.TempDir()
	for name, path := range map[string]string{"deno": deno, "sh": sh} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v: make peers installs it", err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	enginetest.Run(t, enginetest.Options{
		New: func(t *testing.T) engine.Engine {
			return hosted.New(&host.Driver{Work: t.TempDir(), Owner: proc.Owner(), Environ: os.Environ()})
		},
		Languages: []string{"javascript"},
		Sandbox:   sandbox.Spec{Profile: sandbox.Dev, Guest: guest},
	})
}

//go:build integration

package runtimes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

func TestGVisorPassesTheSuite(t *testing.T) {
	t.Parallel()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	for _, tt := range []struct {
		name, root string
		restore    bool
		languages  []string
		own        map[string]string
	}{
		{"with the programs of this machine", "", false, []string{"python", "shell"}, nil},
		{"with a root of its own, from checkpoints", made.root, true, []string{"python", "javascript", "shell"}, inAnImage},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			work := folder(t)
			d := gvisor.New(gvisor.Options{Work: work, Root: tt.root, Restore: tt.restore})
			passes(t, "gvisor", sandboxtest.Options{
				New:       func(*testing.T) sandbox.Driver { return d },
				Guest:     made.guest,
				Lacks:     []sandbox.Limit{sandbox.LimitPIDs},
				Languages: tt.languages,
				Leftovers: func(t *testing.T) []string {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
					left, err := filepath.Glob(filepath.Join(work, "*"))
					if err != nil {
						t.Fatal(err)
					}
					cgroups, err := filepath.Glob("/sys/fs/cgroup/*/toolroom-gvisor-*")
					if err != nil {
						t.Fatal(err)
					}
					return append(left, lasting(cgroups)...)
				},
			}, possible(inGVisor, tt.own))
		})
	}
}

// lasting returns the paths that remain. gVisor's cgroups do not name their owner, and
// another process may use some.
func lasting(paths []string) []string {
	for deadline := time.Now().Add(20 * time.Second); len(paths) > 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		paths = slices.DeleteFunc(paths, func(path string) bool {
			_, err := os.Stat(path)
			return err != nil
		})
	}
	return paths
}

func TestRemainsOfADeadProcessInGVisorAreRemoved(t *testing.T) {
	t.Parallel()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	work := folder(t)
	left := filepath.Join(work, "toolroom-gvisor-"+deadOwner(t)+"-"+strings.Repeat("a", 26))
	if err := os.MkdirAll(filepath.Join(left, "state"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p := gvisor.New(gvisor.Options{Work: work}).Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%+v", p)
	}
	if _, err := os.Stat(left); err == nil {
		t.Errorf("%s is still there", left)
	}
}

func TestGVisorSaysWhyItCannotBeUsed(t *testing.T) {
	t.Parallel()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	for _, tt := range []struct {
		name    string
		options gvisor.Options
		reason  string
	}{
		{"no runsc", gvisor.Options{Program: "/no/such/runsc"}, "was not found"},
		{"no such platform", gvisor.Options{Platform: "steam"}, "does not boot"},
		{"a full disk", gvisor.Options{Work: small(t, 4<<10)}, "no space left"},
		{"no folder for bundles", gvisor.Options{Work: "/no/such/folder"}, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if tt.options.Work == "" {
				tt.options.Work = folder(t)
			}
			d := gvisor.New(tt.options)
			if p := d.Probe(t.Context()); p.State != sandbox.Unsupported || !strings.Contains(p.Reason, tt.reason) || p.Fix == "" {
				t.Errorf("the probe said %+v", p)
			}
			_, err := d.Start(t.Context(), sandbox.Spec{Guest: made.guest})
			refused(t, err, tt.reason, "")
		})
	}
	d := gvisor.New(gvisor.Options{Work: folder(t)})
	if _, err := d.Start(t.Context(), sandbox.Spec{Guest: made.guest, Limits: sandbox.Limits{PIDs: 20}}); toolroom.CodeOf(err) != toolroom.CodeLimitNotEnforceable {
		t.Errorf("twenty processes: %v", err)
	}
	if _, err := d.Start(t.Context(), sandbox.Spec{Guest: made.guest, Image: "/"}); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
		t.Errorf("the root of this machine: %v", err)
	}
}

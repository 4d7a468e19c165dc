//go:build integration

package runtimes

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/sandbox/containerd"
	"github.com/toolroom/toolroom/internal/sandbox/docker"
	"github.com/toolroom/toolroom/internal/sandbox/gvisor"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// Around the table in docs/runtimes.md that the test writes and compares.
const (
	tablePage  = "../../docs/runtimes.md"
	tableBegin = "<!-- measured -->\n"
	tableEnd   = "<!-- end -->\n"
	tableHead  = "| runtime | isolation | wall | CPU | memory | pids | disk | network closed |\n|---|---|---|---|---|---|---|---|\n"
)

// Machines have cgroups of one version or the other, which hold the same.
var cgroupVersion = regexp.MustCompile(`cgroup v[12]`)

func TestTheTableOfLimitsIsWhatTheDriversHoldHere(t *testing.T) {
	t.Parallel()
	program(t, "runsc", "gvisor.dev/gvisor/runsc")
	dockerd, _ := dockerDriver(t, docker.Options{})
	table := tableHead
	for _, d := range []sandbox.Driver{
		process.New(made.guest, nil),
		gvisor.New(gvisor.Options{Work: folder(t), Root: made.root}),
		dockerd,
		containerdDriver(t, containerd.Options{Address: containerdEngine(t)}),
	} {
		p := d.Probe(t.Context())
		if p.State != sandbox.Available {
			t.Fatalf("%s: %s (%s)", d.Name(), p.Reason, p.Fix)
		}
		p.Version = "" // it changes with every update, and what is held should not
		row := cgroupVersion.ReplaceAllString(sandboxtest.Row(d.Name(), p), "cgroup")
		table += strings.TrimSuffix(row, "  |") + "\n"
	}
	page, err := os.ReadFile(tablePage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), tableBegin)
	stands, after, ok := strings.Cut(rest, tableEnd)
	if !ok {
		t.Fatalf("%s has no table between %q and %q", tablePage, tableBegin, tableEnd)
	}
	if os.Getenv("TOOLROOM_UPDATE") != "" {
		if err := os.WriteFile(tablePage, []byte(before+tableBegin+table+tableEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(stands, table); diff != "" {
		t.Errorf("docs/runtimes.md does not say what the drivers hold (-page +here):\n%s\nTOOLROOM_UPDATE=1 go test -tags integration -run TestTheTable ./test/runtimes writes it", diff)
	}
}

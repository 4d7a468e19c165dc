package sandboxtest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/sandbox"
)

// claimed are the limits of the table in docs/runtimes.md, in its order.
var claimed = []sandbox.Limit{
	sandbox.LimitWall, sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitDisk, sandbox.LimitNetwork, sandbox.LimitEgress,
}

// Row is what a driver says that it holds here, and [Run] then tries, as a line of
// the table in docs/runtimes.md.
func Row(name string, p sandbox.Probe) string {
	cells := []string{"`" + name + "`", "`" + p.Isolation + "`"}
	for _, limit := range claimed {
		cell := cmp.Or(p.Holds[limit], p.Partly[limit], "no: "+cmp.Or(p.Lacks[limit], "nobody asks for it"))
		if limit == sandbox.LimitEgress { // all hold it alike
			cell = map[bool]string{true: "yes", false: "no"}[p.Holds[limit] != ""]
		}
		cells = append(cells, cell)
	}
	return alike.ReplaceAllStringFunc("| "+strings.Join(cells, " | ")+" |", func(word string) string { return cmp.Or(same[word], "so many processes") })
}

// Machines have cgroups of one version or the other, and processors that VMs run
// on or that are emulated; what is held is the same.
var (
	alike = regexp.MustCompile(`cgroup v[12]|microvm\+kvm|gvisor\(kvm\)|\d+ processes`)
	same  = map[string]string{
		"cgroup v1": "cgroup", "cgroup v2": "cgroup", "microvm+kvm": "microvm+tcg", "gvisor(kvm)": "gvisor(systrap)",
	}
)

// Documented fails where a table of the page no longer has the line of a driver
// as it is here. On a machine that holds other limits for what it is itself, the
// driver is not compared: a skipped test of its own says why.
func Documented(t *testing.T, page, name string, p sandbox.Probe) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	row := Row(name, p)
	if p.State != sandbox.Available {
		t.Fatalf("%s: %s (%s)", name, p.Reason, p.Fix)
	}
	if slices.Contains(strings.Split(string(text), "\n"), row) {
		return
	}
	if gap := machineLacks(); gap != "" {
		untried(t, "its line in "+filepath.Base(page), "NOT COMPARED, since this machine "+gap+": "+row)
		return
	}
	t.Errorf("%s does not have the line\n%s\nIf that is what the driver is to hold, put it in the place of the old one.", page, row)
}

// untried says, as a test, what is not tried on this machine: a log shows with -v
// alone.
func untried(t *testing.T, what, why string) {
	t.Run(what, func(t *testing.T) { t.Skip(why) })
}

// ofCgroups are the limits that only cgroups hold whole in some drivers.
var ofCgroups = []sandbox.Limit{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs}

// claims fails where the driver no longer says that it holds a limit: what tries
// the limits asks the driver first, and would pass.
func (s *suite) claims(t *testing.T) {
	p := s.engine.Probe(t.Context())
	for _, limit := range claimed {
		_, holds := p.Holds[limit]
		switch lacks := slices.Contains(s.o.Lacks, limit); {
		case lacks && holds:
			t.Errorf("it says that it holds %s, which the suite is told that it lacks", limit)
		case holds || lacks:
		case slices.Contains(ofCgroups, limit) && machineLacks() != "":
			untried(t, string(limit), fmt.Sprintf("NOT HELD, since this machine %s: %s", machineLacks(), p.Lacks[limit]))
		default:
			t.Errorf("it does not say that it holds %s: %s", limit, p.Lacks[limit])
		}
	}
}

// holdsEgress tells whether the driver must keep to a list of hosts.
func (o Options) holdsEgress() bool { return !slices.Contains(o.Lacks, sandbox.LimitEgress) }

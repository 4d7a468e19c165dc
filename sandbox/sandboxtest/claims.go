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

// claimed are the limits in the table of docs/runtimes.md, in its order.
var claimed = []sandbox.Limit{
	sandbox.LimitWall, sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitDisk, sandbox.LimitNetwork, sandbox.LimitEgress,
}

// Row returns the limits that a driver reports here, which [Run] then tests, as a row of
// the table in docs/runtimes.md.
func Row(name string, p sandbox.Probe) string {
	cells := []string{"`" + name + "`", "`" + p.Isolation + "`"}
	for _, limit := range claimed {
		cell := cmp.Or(p.Holds[limit], p.Partly[limit], "no: "+cmp.Or(p.Lacks[limit], "not reported"))
		if limit == sandbox.LimitEgress { // all drivers enforce it in the same way
			cell = map[bool]string{true: "yes", false: "no"}[p.Holds[limit] != ""]
		}
		cells = append(cells, cell)
	}
	return machineSpecific.ReplaceAllStringFunc("| "+strings.Join(cells, " | ")+" |", func(word string) string { return cmp.Or(machineIndependent[word], "so many processes") })
}

// machineSpecific matches what differs between machines: the version of cgroups, and whether
// virtual machines run on the processor or are emulated. machineIndependent has the words that
// Row writes instead.
var (
	machineSpecific    = regexp.MustCompile(`cgroup v[12]|microvm\+kvm|gvisor\(kvm\)|\d+ processes`)
	machineIndependent = map[string]string{
		"cgroup v1": "cgroup", "cgroup v2": "cgroup", "microvm+kvm": "microvm+tcg", "gvisor(kvm)": "gvisor(systrap)",
	}
)

// Documented fails the test if the table of the page does not contain the driver's row.
// On a machine on which drivers enforce fewer limits for lack of a feature, it compares
// nothing, and says why in a skipped subtest.
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
		skipUntested(t, "its line in "+filepath.Base(page), "NOT COMPARED, because this machine "+gap+": "+row)
		return
	}
	t.Errorf("%s does not contain the line\n%s\nIf the driver is correct, replace the old line.", page, row)
}

// skipUntested reports what is not tested on this machine in a skipped subtest, because logs
// are shown only with -v.
func skipUntested(t *testing.T, what, why string) {
	t.Run(what, func(t *testing.T) { t.Skip(why) })
}

// ofCgroups are the limits that some drivers can fully enforce only with cgroups.
var ofCgroups = []sandbox.Limit{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs}

// claims fails the test if the driver no longer reports a limit as enforced. The tests of
// the limits ask the driver first, and would pass.
func (s *suite) claims(t *testing.T) {
	p := s.engine.Probe(t.Context())
	for _, limit := range claimed {
		_, holds := p.Holds[limit]
		switch lacks := slices.Contains(s.o.Lacks, limit); {
		case lacks && holds:
			t.Errorf("the driver reports that it enforces %s, but Options.Lacks contains it", limit)
		case holds || lacks:
		case slices.Contains(ofCgroups, limit) && machineLacks() != "":
			skipUntested(t, string(limit), fmt.Sprintf("NOT ENFORCED, because this machine %s: %s", machineLacks(), p.Lacks[limit]))
		default:
			t.Errorf("the driver does not report that it enforces %s: %s", limit, p.Lacks[limit])
		}
	}
}

// holdsEgress reports whether the driver must enforce a list of hosts.
func (o Options) holdsEgress() bool { return !slices.Contains(o.Lacks, sandbox.LimitEgress) }

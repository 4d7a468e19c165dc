//go:build amd64 || arm64

package lockdown

import (
	"os"
	"path/filepath"
	"testing"
)

func TestACachedProbeIsUsedUntilAStartFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "probe.json")
	machine := func() *HostMachine {
		return &HostMachine{Init: []string{exe, InitArg}, ProbeCache: ProbeCache{Path: file}}
	}
	first := machine()
	if f := first.Probe(t.Context()).Find(Namespaces); !f.Available {
		missing(t, "no namespaces: "+f.Reason)
	}
	if first.recalled {
		t.Error("the first one used a cached probe, but there was none")
	}
	second := machine()
	if f := second.Probe(t.Context()).Find(Namespaces); !f.Available || !second.recalled {
		t.Errorf("the second one probed again: %+v", f)
	}
	s := Spec{Path: "/usr/bin/true", Args: []string{"true"}, Root: System()}
	if p, err := second.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	} else if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	// With a cached probe and a start that fails, the probe is repeated and fails.
	third := machine()
	third.Probe(t.Context())
	third.Init = []string{"/usr/bin/false"}
	if p, err := third.Start(t.Context(), s); err == nil {
		t.Errorf("%v started", p)
	}
	if f := third.Probe(t.Context()).Find(Namespaces); f.Available || f.Reason == "" {
		t.Errorf("after a failed start the probe says %+v", f)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the probe is still cached: %v", err)
	}
}

//go:build amd64 || arm64

package lockdown

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/internal/trial"
)

func TestATrialOfAnEarlierProcessIsBelievedUntilAStartFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "trial.json")
	host := func() *Host { return &Host{Init: []string{exe, InitArg}, Trial: trial.Record{Path: file}} }
	first := host()
	if f := first.Probe(t.Context()).Find(Namespaces); !f.Available {
		missing(t, "no namespaces: "+f.Reason)
	}
	if first.recalled {
		t.Error("the first host recalls what nobody has tried")
	}
	second := host()
	if f := second.Probe(t.Context()).Find(Namespaces); !f.Available || !second.recalled {
		t.Errorf("the second tries again: %+v", f)
	}
	s := Spec{Path: "/usr/bin/true", Args: []string{"true"}, Root: System()}
	if p, err := second.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	} else if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	// A host that recalls and cannot start: it tries, and no longer says that it can.
	third := host()
	third.Probe(t.Context())
	third.Init = []string{"/usr/bin/false"}
	if p, err := third.Start(t.Context(), s); err == nil {
		t.Errorf("%v started", p)
	}
	if f := third.Probe(t.Context()).Find(Namespaces); f.Available || f.Reason == "" {
		t.Errorf("after a start that failed it says %+v", f)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the trial is still remembered: %v", err)
	}
}

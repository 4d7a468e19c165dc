package pynative

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

func TestAZygoteThatIsLentMakesNoRoom(t *testing.T) {
	t.Parallel()
	e := &Engine{o: Options{Owners: 1}, zygotes: map[string]*zygote{}}
	ann, bob, carl := &zygote{}, &zygote{}, &zygote{}
	if old := e.adopt("ann", ann); old != nil || !ann.borrow(time.Hour, func() {}) {
		t.Fatal("ann has no zygote")
	}
	defer ann.idle.Stop()
	// ann is about to fork, and has no process yet.
	if old := e.adopt("bob", bob); old != nil {
		t.Error("a lent zygote was ended to make room")
	}
	ann.release()
	bob.lastUse = time.Now()
	if old := e.adopt("carl", carl); old != ann {
		t.Error("the zygote that is unused for longest does not make room")
	}
	if ann.borrow(time.Hour, func() {}) { // by a run that has just looked it up
		t.Error("a zygote that makes room was lent")
	}
}

func TestAZygoteThatHasBeenIdleForTooLongIsNotLent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		z, lent := &zygote{}, false
		if !z.borrow(time.Minute, func() { lent = z.borrow(time.Minute, func() {}) }) { // just before its end
			t.Fatal("a new zygote is not lent")
		}
		z.release()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if lent || !z.dead {
			t.Errorf("lent = %t, dead = %t", lent, z.dead)
		}
	})
}

func TestAForkThatCannotBeAskedForLeavesNoProcess(t *testing.T) {
	t.Parallel()
	ours, theirs, err := proc.SocketPair(syscall.SOCK_SEQPACKET)
	if err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	defer ours.Close()
	z := &zygote{control: ours, children: map[uint64]*child{}}
	if _, err := z.fork(t.Context(), false); err == nil || !strings.Contains(err.Error(), "ask for a fork") {
		t.Fatalf("fork = %v", err)
	}
	if _, free := z.idleSince(); !free {
		t.Errorf("%d processes are left", len(z.children))
	}
}

func TestFilesThatTheSystemHasRemovedAreWrittenAgain(t *testing.T) {
	t.Parallel()
	e := New(Options{})
	t.Cleanup(func() { _ = e.Close() })
	folder, err := e.writeFiles()
	if err != nil {
		t.Fatal(err)
	}
	for name, remove := range map[string]func() error{
		"one file": func() error { return os.Remove(filepath.Join(folder, "zygote.py")) },
		"all":      func() error { return os.RemoveAll(folder) },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		before := folder
		if folder, err = e.writeFiles(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "zygote.py")); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
		if _, err := os.Stat(before); err == nil {
			t.Errorf("without %s, %s is left behind", name, before)
		}
	}
}

func TestAZygoteThatDidNotStartIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	e := New(Options{})
	t.Cleanup(func() { _ = e.Close() })
	e.o.Python = "/usr/bin/false" // it starts, and does not get ready
	for range 2 {
		if p := e.Probe(t.Context()); p.State != sandbox.Unsupported || !strings.Contains(p.Reason, "did not get ready") {
			t.Fatalf("without Python: %+v", p)
		}
		e.o.Python = "/usr/bin/python3"
	}
	e.probeAfter = time.Now()
	if p := e.Probe(t.Context()); p.State != sandbox.Available {
		t.Errorf("later: %+v", p)
	}
}

func TestAProbeWaitsForAnotherNoLongerThanItsCaller(t *testing.T) {
	t.Parallel()
	e := New(Options{})
	e.probing <- struct{}{} // another caller starts a zygote
	late, over := context.WithCancel(t.Context())
	over()
	if p := e.Probe(late); p.State != sandbox.Inconclusive {
		t.Errorf("the probe is %s", p.State)
	}
}

package sandboxtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
)

// GuestInside is the path of the guest's binary inside the sandboxes of most drivers.
const GuestInside = "/run/toolroom-guest"

// everywhere are the attempts that succeed under every driver, with the reason why they
// are harmless.
var everywhere = map[string]string{
	"signal the parent": "the parent is the guest, and its end is the end of the run",
}

// Escape tests that a program cannot get out of a sandbox, by all attempts of package
// escape, in the profiles standard and hardened. The guest must call [escape.Main], as
// ./escape/guest does. Afterwards Escape checks that nothing outside has changed.
//
// Drivers that enforce a list of hosts are tested with one, too.
//
// possible names the attempts that succeed under this driver, with the reason why they
// are harmless. Escape fails if one of them no longer succeeds.
func Escape(t *testing.T, o Options, possible map[string]string) {
	known := maps.Clone(everywhere)
	maps.Copy(known, possible)
	for _, tt := range []struct {
		name    string
		profile sandbox.Profile
		egress  []string
	}{
		{"standard", sandbox.Standard, nil},
		{"hardened", sandbox.Hardened, nil},
		{"standard with a list of hosts", sandbox.Standard, []string{"allowed.example:443"}},
		{"hardened with a list of hosts", sandbox.Hardened, []string{"allowed.example:443"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{t: t, o: o, engine: hosted.New(o.New(t))}
			known := maps.Clone(known)
			if tt.egress != nil {
				if !o.holdsEgress() {
					return // Run tests that the driver runs nothing then
				}
				known["listen"] = "its network contains nothing else"
			}
			spec := s.spec(tt.profile)
			spec.Egress = tt.egress
			lies := newOutside(t)
			results := s.attempts(t, spec, lies.Outside)
			t.Logf("%d attempts", len(results))
			for _, name := range slices.Sorted(maps.Keys(results)) {
				t.Run(strings.ReplaceAll(name, "/", "|"), func(t *testing.T) {
					judge(t, results[name], known[name])
				})
			}
			lies.check(t)
		})
	}
}

// judge checks the result of one attempt.
func judge(t *testing.T, result, why string) {
	succeeded := result == escape.Succeeded
	switch {
	case succeeded && why == "":
		t.Error("the attempt succeeded")
	case !succeeded && why != "":
		t.Errorf("the attempt should succeed (%s), but failed: %s", why, result)
	}
	for _, malformed := range []string{"bad address", "bad file descriptor"} {
		if strings.Contains(result, malformed) {
			t.Errorf("the attempt is malformed: %s", result)
		}
	}
}

// attempts runs all attempts in a sandbox, as a command of the guest.
func (s *suite) attempts(t *testing.T, spec sandbox.Spec, o escape.Outside) map[string]string {
	t.Helper()
	argument, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	spec.Limits.Wall = 100 * time.Second // enough for an emulated processor
	out := s.run(t, engine.Job{
		Program: bridge.Program{Language: "command", Command: []string{cmp.Or(s.o.GuestInside, GuestInside), escape.Arg, string(argument)}},
		Sandbox: spec,
	})
	var results map[string]string
	if out.failed() {
		t.Fatalf("the program ended with %v", out)
	}
	if err := json.Unmarshal([]byte(out.stdout), &results); err != nil || len(results) == 0 {
		t.Fatalf("the program reported %q: %v", out.stdout, err)
	}
	return results
}

// outside holds the targets on this machine that a program might reach.
type outside struct {
	escape.Outside
	folder string
}

func newOutside(t *testing.T) outside {
	t.Helper()
	// Only this user could enter t.TempDir.
	folder, err := os.MkdirTemp("", "outside-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	o := outside{folder: folder, Outside: escape.Outside{
		Abstract: fmt.Sprintf("@toolroom-escape-%s", filepath.Base(folder)),
		Socket:   filepath.Join(folder, "socket"), Secret: filepath.Join(folder, "secret"), Server: os.Getpid(),
	}}
	if err := os.WriteFile(o.Secret, []byte(escape.Word), 0o666); err != nil {
		t.Fatal(err)
	}
	listen := func(network, address string) net.Addr {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l.Addr()
	}
	o.TCP = listen("tcp", "127.0.0.1:0").String()
	listen("unix", o.Abstract)
	listen("unix", o.Socket)
	// All users may access the targets, so that only the sandbox protects them.
	for path, mode := range map[string]os.FileMode{folder: 0o777, o.Secret: 0o666, o.Socket: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// check fails the test if anything outside has changed.
func (o outside) check(t *testing.T) {
	t.Helper()
	if text, err := os.ReadFile(o.Secret); err != nil || string(text) != escape.Word {
		t.Errorf("the secret outside was changed: %q, %v", text, err)
	}
	entries, err := os.ReadDir(o.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "secret" && e.Name() != "socket" {
			t.Errorf("%s was written from inside", e.Name())
		}
	}
}

package sandboxtest

import (
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

// GuestInside is where drivers put the guest's binary.
const GuestInside = "/run/toolroom-guest"

// everywhere are the attempts that no driver refuses, with the reason why they
// are no way out.
var everywhere = map[string]string{
	"signal the parent": "the parent is the guest, with whom the run ends",
}

// Escape has a program try every way out that package escape knows, in the
// profiles standard and hardened, and wants each to be refused. The guest must
// know [escape.Main], as ./escape/guest does. Besides the driver's own words,
// what lies outside is looked at afterwards.
//
// A driver that is not said to lack a list of hosts is tried with one too.
//
// possible names attempts that the driver does not refuse, with the reason why
// they lead nowhere; that they are still possible is asserted too.
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
					return // that it then runs nothing, Run asserts
				}
				known["listen"] = "nobody else is in its network"
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

// judge looks at what became of one attempt.
func judge(t *testing.T, result, why string) {
	succeeded := result == escape.Succeeded
	switch {
	case succeeded && why == "":
		t.Error("it succeeded")
	case !succeeded && why != "":
		t.Errorf("it is said to be possible (%s), and is not: %s", why, result)
	}
	for _, malformed := range []string{"bad address", "bad file descriptor"} {
		if strings.Contains(result, malformed) {
			t.Errorf("the attempt itself is wrong: %s", result)
		}
	}
}

// attempts runs the attempts in a sandbox, as a program of the guest.
func (s *suite) attempts(t *testing.T, spec sandbox.Spec, o escape.Outside) map[string]string {
	t.Helper()
	argument, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	spec.Limits.Wall = 100 * time.Second // for a processor that is emulated
	out := s.run(t, engine.Job{
		Program: bridge.Program{Language: "command", Command: []string{GuestInside, escape.Arg, string(argument)}},
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

// outside is what lies on this machine for a program to reach.
type outside struct {
	escape.Outside
	folder string
}

func newOutside(t *testing.T) outside {
	t.Helper()
	// Not t.TempDir, which only this user can enter.
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
	// Nobody is kept away by anything but the sandbox.
	for path, mode := range map[string]os.FileMode{folder: 0o777, o.Secret: 0o666, o.Socket: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// check looks whether anything outside has changed.
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

package docker

import (
	"slices"
	"testing"

	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/sandbox"
)

// A rule about a folder that a sandbox shows is a second mount at its place, and the engine
// refuses two.
func TestAFolderIsMountedOnceAtAPlace(t *testing.T) {
	t.Parallel()
	o := createOptions(sandbox.Spec{Folders: []sandbox.Folder{
		{Source: "/srv/a", Writable: true}, {Source: "/srv/b"}, {Source: "/srv/a", Target: "/srv/a"}, {Source: "/scratch/denied", Target: "/srv/a/key"},
	}}, false, false)
	got := ""
	for _, m := range o.HostConfig.Mounts {
		if m.Target == oci.GuestPath {
			continue
		}
		got += m.Source + " " + m.Target + map[bool]string{true: " ro", false: " rw"}[m.ReadOnly] + "\n"
	}
	if want := "/srv/b /srv/b ro\n/srv/a /srv/a ro\n/scratch/denied /srv/a/key ro\n"; got != want {
		t.Errorf("%s", got)
	}
}

// Folders of this machine are not those of an engine elsewhere.
func TestOnlyAnEngineOfThisMachineShowsItsFolders(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"unix:///var/run/docker.sock": true, "npipe:////./pipe/docker_engine": true, "tcp://127.0.0.1:2375": true, "tcp://[::1]:2375": true, "http://localhost:2375": true,
		"tcp://10.0.0.7:2376": false, "ssh://build.example.com": false, "tcp://127.0.0.1.example.com:2375": false, "tcp://": false,
	} {
		if got := isLocal(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

func TestTerminalsAreHiddenUnlessAskedFor(t *testing.T) {
	t.Parallel()
	for terminal, hidden := range map[bool]bool{false: true, true: false} {
		o := createOptions(sandbox.Spec{Profile: sandbox.Standard, Terminal: terminal}, false, false)
		if got := slices.Contains(o.HostConfig.MaskedPaths, "/dev/pts"); got != hidden {
			t.Errorf("with terminals %t they are hidden: %t", terminal, got)
		}
	}
}

package docker

import (
	"testing"

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
		if m.Target == guestPath {
			continue
		}
		got += m.Source + " " + m.Target + map[bool]string{true: " ro", false: " rw"}[m.ReadOnly] + "\n"
	}
	if want := "/srv/b /srv/b ro\n/srv/a /srv/a ro\n/scratch/denied /srv/a/key ro\n"; got != want {
		t.Errorf("%s", got)
	}
}

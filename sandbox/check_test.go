package sandbox_test

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

func TestARuntimeOrImageThatADriverDoesNotSupportIsRefused(t *testing.T) {
	t.Parallel()
	all := map[sandbox.Limit]string{sandbox.LimitNetwork: "yes"}
	none := sandbox.Probe{State: sandbox.Available, Holds: all}
	choice := sandbox.Probe{State: sandbox.Available, Holds: all, Runtimes: map[string]string{}, Images: true}
	for name, tt := range map[string]struct {
		probe sandbox.Probe
		spec  sandbox.Spec
		want  toolroom.Code
	}{
		"neither is named":              {none, sandbox.Spec{}, ""},
		"a runtime where there is none": {none, sandbox.Spec{Runtime: "runsc"}, toolroom.CodeInvalidArguments},
		"not for best effort either":    {none, sandbox.Spec{Runtime: "runsc", BestEffort: true}, toolroom.CodeInvalidArguments},
		"an image where there is none":  {none, sandbox.Spec{Image: "debian"}, toolroom.CodeInvalidArguments},
		"both where there is a choice":  {choice, sandbox.Spec{Runtime: "runsc", Image: "debian"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := sandbox.Check("driver", tt.probe, tt.spec)
			if got := toolroom.CodeOf(err); err == nil != (tt.want == "") || err != nil && got != tt.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestADriverThatCannotShowFoldersSaysWhyAndWhatToDo(t *testing.T) {
	t.Parallel()
	can := sandbox.Probe{State: sandbox.Available, Holds: map[sandbox.Limit]string{sandbox.LimitNetwork: "yes"}}
	for driver, want := range map[string][2]string{
		"docker":      {"its daemon runs on another machine", "a daemon of this machine"},
		"docker/runc": {"its daemon runs on another machine", "a daemon of this machine"},
		"gvisor":      {"without root", "start toolroom as root"},
		"kata":        {"would not hold the rules about files", "docker, containerd or gvisor"},
		"microvm":     {"shares no file system with this machine", "docker, containerd or gvisor"},
		"firecracker": {"shares no file system with this machine", "docker, containerd or gvisor"},
		"kubernetes":  {"the nodes of a cluster", "put the files into the image"},
		"proxmox_lxc": {"a Proxmox host", "put the files into the template"},
		"remote":      {"its runner is another machine", "an MCP server by its URL"},
		"temporal":    {"its runner is another machine", "an MCP server by its URL"},
		"another":     {"it has no way to show them", "name no folders"},
	} {
		err := sandbox.Check(driver, can, sandbox.Spec{Folders: []sandbox.Folder{{Source: "/srv"}}})
		e := toolroom.AsError(err)
		if e == nil || e.Code != toolroom.CodeLimitNotEnforceable || !strings.Contains(e.Message, want[0]) || !strings.Contains(e.Hint, want[1]) {
			t.Errorf("%s: %v (%v)", driver, err, e)
		}
	}
}

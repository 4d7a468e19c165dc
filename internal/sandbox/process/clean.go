package process

import (
	"context"

	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/sandbox"
)

// Clean removes the cgroups and folders of processes that have died. The processes
// that ran in them have ended, too.
func (d *Driver) Clean(_ context.Context, dry bool) ([]sandbox.Leftover, error) {
	var list []sandbox.Leftover
	for _, left := range lockdown.Leftovers() {
		kind := "folder"
		if left.Cgroup {
			kind = "cgroup"
		}
		list = append(list, sandbox.Leftover{Kind: kind, Name: left.Path}.Remove(dry, left.Remove))
	}
	return list, nil
}

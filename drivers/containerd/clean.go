//go:build linux

package containerd

import (
	"context"
	"errors"
	"fmt"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Clean removes the containers, leases and folders of processes that have died, with
// their tasks and snapshots.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	c, err := d.dial(ctx)
	if err != nil {
		return nil, d.unreachable(ctx, err)
	}
	defer c.Close()
	return d.clean(ctx, c, dry)
}

func (d *Driver) clean(ctx context.Context, c *containerd.Client, dry bool) ([]sandbox.Leftover, error) {
	ctx = d.withNamespace(ctx)
	containers, err := d.cleanContainers(ctx, c, dry)
	leased, lerr := cleanLeases(ctx, c, dry)
	folders := proc.CleanFolders("", dry)
	return append(append(containers, leased...), folders...), errors.Join(err, lerr)
}

func (d *Driver) cleanContainers(ctx context.Context, c *containerd.Client, dry bool) ([]sandbox.Leftover, error) {
	list, err := c.Containers(ctx, fmt.Sprintf("labels.%q", proc.LabelOwner))
	if err != nil {
		return nil, err
	}
	var left []sandbox.Leftover
	for _, container := range list {
		labels, err := container.Labels(ctx)
		if err != nil || !proc.Abandoned(labels) {
			continue
		}
		left = append(left, sandbox.Leftover{Kind: "container", Name: container.ID()}.Remove(dry, func() error {
			return (&instance{driver: d, container: container}).Kill(ctx)
		}))
	}
	return left, nil
}

// cleanLeases removes the leases of starts that died before the end. The daemon then
// removes the snapshots that no container uses.
func cleanLeases(ctx context.Context, c *containerd.Client, dry bool) ([]sandbox.Leftover, error) {
	list, err := c.LeasesService().List(ctx, fmt.Sprintf("labels.%q", proc.LabelOwner))
	if err != nil {
		return nil, err
	}
	var left []sandbox.Leftover
	for _, lease := range list {
		if !proc.Abandoned(lease.Labels) {
			continue
		}
		left = append(left, sandbox.Leftover{Kind: "lease", Name: lease.ID}.Remove(dry, func() error {
			return ignoreNotFound(c.LeasesService().Delete(ctx, lease, leases.SynchronousDelete))
		}))
	}
	return left, nil
}

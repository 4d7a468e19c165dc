package docker

import (
	"context"
	"strings"

	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Clean removes the containers of processes that have died.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	e, err := d.dial(ctx)
	if err != nil {
		return nil, d.unreachable(ctx, err)
	}
	defer e.Close()
	return clean(ctx, e, dry)
}

func clean(ctx context.Context, e *engine, dry bool) ([]sandbox.Leftover, error) {
	list, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", proc.LabelOwner)})
	if err != nil {
		return nil, err
	}
	var left []sandbox.Leftover
	for _, c := range list.Items {
		if !proc.Abandoned(c.Labels) {
			continue
		}
		left = append(left, sandbox.Leftover{Kind: "container", Name: strings.TrimSpace(c.ID + " " + c.Labels[proc.LabelRun])}.Remove(dry, func() error {
			_, err := e.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			return err
		}))
	}
	return left, nil
}

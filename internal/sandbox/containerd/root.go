//go:build linux

package containerd

import (
	"cmp"
	"context"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/defaults"
	"github.com/opencontainers/image-spec/identity"
)

// root is the snapshot that containers of an image lie on, and who keeps it.
type root struct{ snapshotter, parent string }

// withRoot gives a container a snapshot of its own of an image. It does what
// containerd.WithNewSnapshot does with fewer questions to the daemon: the root of
// an image follows from its digest, and is asked for once.
func (d *Driver) withRoot(id string, img containerd.Image) containerd.NewContainerOpts {
	return func(ctx context.Context, client *containerd.Client, c *containers.Container) error {
		r, err := d.rootOf(ctx, client, img)
		if err != nil {
			return err
		}
		if _, err := client.SnapshotService(r.snapshotter).Prepare(ctx, id, r.parent); err != nil {
			return err
		}
		c.Snapshotter, c.SnapshotKey, c.Image = r.snapshotter, id, img.Name()
		return nil
	}
}

func (d *Driver) rootOf(ctx context.Context, client *containerd.Client, img containerd.Image) (root, error) {
	key := img.Target().Digest
	d.mu.Lock()
	known, ok := d.roots[key]
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	layers, err := img.RootFS(ctx)
	if err != nil {
		return root{}, err
	}
	r := root{d.o.Snapshotter, identity.ChainID(layers).String()}
	if r.snapshotter == "" {
		if r.snapshotter, err = client.GetLabel(ctx, defaults.DefaultSnapshotterNSLabel); err != nil {
			return root{}, err
		}
	}
	r.snapshotter = cmp.Or(r.snapshotter, defaults.DefaultSnapshotter)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.roots) >= maxRoots { // more images than anybody runs: begin anew
		clear(d.roots)
	}
	d.roots[key] = r
	return r, nil
}

// maxRoots bounds what is remembered.
const maxRoots = 256

package drivers

import (
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/sandbox"
)

// addLinux adds the drivers of engines that exist only on Linux.
func addLinux(all map[string]program.NewDriver) {
	all["containerd"] = fromSettings(func(c config.Containerd) sandbox.Driver { return containerd.New(containerdOptions(c)) })
	all["kata"] = fromSettings(func(c config.Containerd) sandbox.Driver { return containerd.NewKata(containerdOptions(c)) })
}

func containerdOptions(c config.Containerd) containerd.Options {
	return containerd.Options{Address: c.Address, Namespace: c.Namespace, Snapshotter: c.Snapshotter, Image: c.Image, Runtime: c.Runtime}
}

func containerdLoader(c config.Containerd) imageLoader { return containerd.New(containerdOptions(c)) }

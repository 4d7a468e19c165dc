package main

import (
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/sandbox"
)

// linuxDrivers creates the drivers of engines that exist only on Linux.
func linuxDrivers(r app.Runtimes) []sandbox.Driver {
	return []sandbox.Driver{
		containerd.New(containerdOptions(r.Containerd)),
		containerd.NewKata(containerdOptions(r.Kata)),
	}
}

func containerdOptions(c config.Containerd) containerd.Options {
	return containerd.Options{Address: c.Address, Namespace: c.Namespace, Snapshotter: c.Snapshotter, Image: c.Image, Runtime: c.Runtime}
}

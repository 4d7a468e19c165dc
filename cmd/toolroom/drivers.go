package main

import (
	"cmp"
	"os"

	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/sandbox"
)

// drivers creates the sandbox drivers that use external engines. Package room does not link
// them, because they are large.
func drivers(r app.Runtimes) []sandbox.Driver {
	list := []sandbox.Driver{
		gvisor.New(gvisor.Options{Program: r.GVisor.Program, Platform: r.GVisor.Platform, Root: r.GVisor.Root, Restore: r.GVisor.Restore}),
		docker.New(docker.Options{
			Host:       cmp.Or(r.Docker.Host, os.Getenv("DOCKER_HOST")),
			CertFolder: os.Getenv("DOCKER_CERT_PATH"),
			Image:      r.Docker.Image,
			Pull:       docker.Pull(r.Docker.Pull),
			Runtime:    r.Docker.Runtime,
		}),
	}
	return append(append(list, linuxDrivers(r)...), kubernetes.New(kubernetesOptions(r.Kubernetes)))
}

func kubernetesOptions(c config.Kubernetes) kubernetes.Options {
	return kubernetes.Options{
		Kubeconfig: c.Kubeconfig, Context: c.Context, Namespace: c.Namespace, Image: c.Image, GuestImage: c.GuestImage, Pull: c.Pull,
		RuntimeClass: c.RuntimeClass, NodeSelector: c.NodeSelector, Job: c.Job, StartTimeout: c.StartTimeout,
	}
}

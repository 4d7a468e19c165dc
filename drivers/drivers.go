// Package drivers has what toolroom-runner serves: the sandbox drivers of foreign engines,
// and workflows on Temporal. It is in a module of its own, so that neither toolroom nor
// programs that embed it link the engines' clients.
package drivers

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"

	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/drivers/kubernetes"
	"github.com/toolroom/toolroom/drivers/microvm"
	"github.com/toolroom/toolroom/drivers/proxmox"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/program"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// Serve serves all drivers and workflows on a socket, until stdin or ctx ends; see package
// serve. getenv returns environment variables.
func Serve(ctx context.Context, socket, build string, getenv func(string) string, log *slog.Logger) error {
	return program.Serve(ctx, socket, os.Stdin, os.Stdout, program.ServeOptions{
		Build: build, Drivers: driverMakers(getenv), Log: log,
		Handlers: map[string]http.Handler{app.WorkflowName: newWorkflowHandler(log)},
	})
}

// driverMakers returns the constructors of the drivers, by name.
func driverMakers(getenv func(string) string) map[string]program.NewDriver {
	all := map[string]program.NewDriver{
		"docker":      fromSettings(func(c config.Docker) sandbox.Driver { return newDocker(c, getenv) }),
		"gvisor":      fromSettings(newGVisor),
		"kubernetes":  fromSettings(newKubernetes),
		"proxmox_lxc": fromSettings(newProxmox),
		"microvm":     fromSettings(func(s app.MicroVMSettings) sandbox.Driver { return microvm.NewQEMU(microVMOptions(s)) }),
		"firecracker": fromSettings(func(s app.MicroVMSettings) sandbox.Driver { return microvm.NewFirecracker(microVMOptions(s)) }),
	}
	addLinux(all)
	return all
}

// fromSettings returns a constructor that decodes the settings of a driver from JSON.
func fromSettings[S any](make func(S) sandbox.Driver) program.NewDriver {
	return func(text json.RawMessage) (sandbox.Driver, error) {
		var settings S
		if err := json.Unmarshal(text, &settings); err != nil {
			return nil, err
		}
		return make(settings), nil
	}
}

func newDocker(c config.Docker, getenv func(string) string) *docker.Driver {
	return docker.New(docker.Options{
		Host: cmp.Or(c.Host, getenv("DOCKER_HOST")), CertFolder: getenv("DOCKER_CERT_PATH"),
		Image: c.Image, Pull: docker.Pull(c.Pull), Runtime: c.Runtime,
	})
}

func newGVisor(c config.GVisor) sandbox.Driver {
	return gvisor.New(gvisor.Options{Program: c.Program, Platform: c.Platform, Root: c.Root, Restore: c.Restore})
}

func newKubernetes(c config.Kubernetes) sandbox.Driver {
	return kubernetes.New(kubernetes.Options{
		Kubeconfig: c.Kubeconfig, Context: c.Context, Namespace: c.Namespace, Image: c.Image, GuestImage: c.GuestImage, Pull: c.Pull,
		RuntimeClass: c.RuntimeClass, NodeSelector: c.NodeSelector, Job: c.Job, StartTimeout: c.StartTimeout,
	})
}

func microVMOptions(s app.MicroVMSettings) microvm.Options {
	return microvm.Options{Folder: microvm.Folder(s.Home), Guest: s.Guest.Path, GuestArgs: s.Guest.Args}
}

func newProxmox(s app.ProxmoxSettings) sandbox.Driver {
	known := func(value string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return value, nil }
	}
	c := s.Config
	return proxmox.New(proxmox.Options{
		URL: c.URL, CA: c.CA, Node: c.Node, Token: known(s.Token),
		Template: c.Template, Full: c.Full, Pool: c.Pool, Container: c.Container, Port: c.Port,
		Runner: remote.Options{
			Secret: known(s.Secret), CA: c.Runner.CA, Cert: c.Runner.Cert, Key: c.Runner.Key, ServerName: c.Runner.ServerName, Plain: c.Runner.Plain,
		},
		Machine: s.Machine, Owner: proc.Owner(), Alive: proc.Alive,
	})
}

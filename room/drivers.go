package room

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/proxmox"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// addDrivers lets programs run under drivers.
func (r *Room) addDrivers(drivers ...sandbox.Driver) {
	r.drivers = append(r.drivers, drivers...)
	for _, d := range drivers {
		r.engines = append(r.engines, hosted.NewWarm(d, r.ahead(d)))
	}
}

// Driver is the sandbox driver of a name. It is not there when it is not
// configured; the host is there where the config allows it.
func (r *Room) Driver(name string) (sandbox.Driver, error) {
	var names []string
	for _, d := range r.drivers {
		if d.Name() == "host" && !r.Config().Code.Host {
			if name == "host" {
				return nil, toolroom.Errorf(toolroom.CodeDenied, "the host is no sandbox, and the config does not allow it").
					WithHint("write code: {host: true} if programs may do all that you may")
			}
			continue
		}
		if d.Name() == name {
			return d, nil
		}
		names = append(names, d.Name())
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "there is no sandbox driver %q here", name).
		WithHint("there are %s", strings.Join(names, ", "))
}

// Guest is the binary that runs programs inside sandboxes. Its path is empty
// where there is none.
func (r *Room) Guest() Guest { return r.o.Guest }

// distantDrivers are those that run programs on other machines.
func (r *Room) distantDrivers(c config.Runtimes) []sandbox.Driver {
	var drivers []sandbox.Driver
	if c.Remote.URL != "" {
		drivers = append(drivers, remote.New(r.remoteOptions(c.Remote)))
	}
	if p := c.Proxmox; p.URL != "" {
		drivers = append(drivers, proxmox.New(proxmox.Options{
			URL: p.URL, CA: r.folder(p.CA), Node: p.Node, Token: r.secretOf(p.Token),
			Template: p.Template, Full: p.Full, Pool: p.Pool, Container: p.Container,
			Port: p.Port, Runner: r.remoteOptions(p.Runner),
			Machine: r.machine(), Owner: r.owner, Alive: proc.Alive,
		}))
	}
	return drivers
}

func (r *Room) remoteOptions(c config.Remote) remote.Options {
	return remote.Options{
		URL: c.URL, Secret: r.secretOf(c.Secret), CA: r.folder(c.CA), Cert: r.folder(c.Cert), Key: r.folder(c.Key),
		ServerName: c.ServerName, Plain: c.Plain,
	}
}

// machine names this machine and home, where process ids mean something.
func (r *Room) machine() string {
	name, _ := os.Hostname() // without one the home must do
	sum := sha256.Sum256([]byte(name + "\n" + r.home))
	return hex.EncodeToString(sum[:4])
}

// secretOf resolves a reference anew each time.
func (r *Room) secretOf(reference string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return r.keeper.Resolve(shared(ctx), reference) }
}

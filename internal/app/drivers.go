package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// addDrivers makes drivers available to programs.
func (r *App) addDrivers(drivers ...sandbox.Driver) {
	r.drivers = append(r.drivers, drivers...)
	for _, d := range drivers {
		r.engines = append(r.engines, hosted.NewWarm(d, r.ahead(d)))
	}
}

// Driver returns the sandbox driver with a name. The error is not_found if the driver is
// not configured, and denied for host unless the config allows it.
func (r *App) Driver(name string) (sandbox.Driver, error) {
	var names []string
	for _, d := range r.drivers {
		if d.Name() == "host" && !r.Config().Code.Host {
			if name == "host" {
				return nil, toolroom.Errorf(toolroom.CodeDenied, "the runtime host is not a sandbox, and the config does not allow it").
					WithHint("write code: {host: true} if programs may do everything that you may")
			}
			continue
		}
		if d.Name() == name {
			return d, nil
		}
		names = append(names, d.Name())
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "sandbox driver %q not found", name).
		WithHint("available: %s", strings.Join(names, ", "))
}

// Guest returns the binary that runs programs inside sandboxes. Its path is empty if there
// is none.
func (r *App) Guest() Guest { return r.o.Guest }

func (r *App) remoteOptions(c config.Remote) remote.Options {
	return remote.Options{
		URL: c.URL, Secret: r.secretOf(c.Secret), CA: r.folder(c.CA), Cert: r.folder(c.Cert), Key: r.folder(c.Key),
		ServerName: c.ServerName, Plain: c.Plain,
	}
}

// machine identifies this machine and home, the scope in which process ids are unique.
func (r *App) machine() string {
	name, _ := os.Hostname() // if there is no name, the home must do
	sum := sha256.Sum256([]byte(name + "\n" + r.home))
	return hex.EncodeToString(sum[:4])
}

// secretOf returns a function that resolves a reference again at each call.
func (r *App) secretOf(reference string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return r.resolver.Resolve(shared(ctx), reference) }
}

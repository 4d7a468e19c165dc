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
func (a *App) addDrivers(drivers ...sandbox.Driver) {
	a.drivers = append(a.drivers, drivers...)
	for _, d := range drivers {
		a.engines = append(a.engines, hosted.NewWarm(d, a.warmSettings(d)))
	}
}

// Driver returns the sandbox driver with a name. The error is not_found if the driver is
// not configured, and denied for host unless the config allows it.
func (a *App) Driver(name string) (sandbox.Driver, error) {
	var names []string
	for _, d := range a.drivers {
		if d.Name() == "host" && !a.Config().Code.Host {
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
func (a *App) Guest() Guest { return a.o.Guest }

func (a *App) remoteOptions(c config.Remote) remote.Options {
	return remote.Options{
		URL: c.URL, Secret: a.secretFunc(c.Secret), CA: a.resolvePath(c.CA), Cert: a.resolvePath(c.Cert), Key: a.resolvePath(c.Key),
		ServerName: c.ServerName, Plain: c.Plain,
	}
}

// machine identifies this machine and home, the scope in which process ids are unique.
func (a *App) machine() string {
	name, _ := os.Hostname() // if there is no name, the home must do
	sum := sha256.Sum256([]byte(name + "\n" + a.home))
	return hex.EncodeToString(sum[:4])
}

// secretFunc returns a function that resolves a reference again at each call.
func (a *App) secretFunc(reference string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return a.resolver.Resolve(forAllCallers(ctx), reference) }
}

package room

import (
	"context"

	"github.com/toolroom/toolroom/sandbox"
)

// checkEngines reports what programs can run on and which limits are enforced there.
func (r *Room) checkEngines(ctx context.Context) []Check {
	var checks []Check
	usable := 0
	for _, e := range r.Engines(ctx) {
		c := Check{Name: "runtime " + e.Name, Status: CheckOK, Fix: e.Fix}
		switch {
		case e.State != sandbox.Available:
			c.Status, c.Detail = CheckInfo, e.Reason
		case e.Name == "host":
			c.Detail, c.Fix = "not a sandbox, allowed by the config", ""
			if !r.Config().Code.Host {
				c.Detail, c.Fix = "not allowed", "write code: {host: true} if programs may do everything that you may; they then run only with --best-effort or --profile dev, because their network is not restricted"
				c.Status = CheckInfo
			}
		default:
			usable++
			c.Detail = e.Isolation + ": " + e.Version
		}
		c.Runtime = &e
		checks = append(checks, c)
	}
	if usable == 0 {
		checks = append(checks, Check{
			Name: "sandboxes", Status: CheckWarn, Detail: "none available: agents' programs cannot run",
			Fix: "see the runtimes above and docs/runtimes.md",
		})
	}
	return checks
}

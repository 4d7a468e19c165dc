package app

import (
	"context"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/sandbox"
)

// checkEngines reports what programs can run on and which limits are enforced there.
func (a *App) checkEngines(ctx context.Context) []Check {
	checks := a.checkRunner(ctx)
	usable := 0
	missing := "" // the runner's failure, which its drivers would repeat
	if len(checks) > 0 && checks[0].Status != CheckOK {
		missing = checks[0].Detail
	}
	for _, e := range a.Engines(ctx) {
		c := Check{Name: "runtime " + e.Name, Status: CheckOK, Fix: e.Fix}
		switch {
		case e.State != sandbox.Available:
			c.Status, c.Detail = CheckInfo, e.Reason
			if missing != "" && e.Reason == missing {
				c.Detail, c.Fix = "needs "+RunnerName+", see above", ""
			}
		case e.Name == "host":
			c.Detail, c.Fix = "not a sandbox, allowed by the config", ""
			if !a.Config().Code.Host {
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
	checks = append(checks, unconfiguredRuntimes(a.Config().Code.Runtimes)...)
	if usable == 0 {
		checks = append(checks, Check{
			Name: "sandboxes", Status: CheckWarn, Detail: "none available: agents' programs cannot run",
			Fix: "see the runtimes above and docs/runtimes.md",
		})
	}
	return checks
}

// unconfiguredRuntimes returns a check for each runtime on other machines that the config
// does not name, with the line to add to the config.
func unconfiguredRuntimes(c config.Runtimes) []Check {
	var checks []Check
	for _, runtime := range [...]struct{ name, is, line, configured string }{
		{"remote", "a runner on another machine", `{url: "https://runner.example:7071", secret: "secret://runner/key"}`, c.Remote.URL},
		{"proxmox_lxc", "containers of Proxmox VE", `{url: "https://pve.example:8006", node: pve1, token: "secret://proxmox/token", template: 9000, runner: {secret: "secret://runner/key"}}`, c.Proxmox.URL},
		{"temporal", "workers of Temporal", `{address: "127.0.0.1:7233", secret: "secret://temporal/key"}`, c.Temporal.Secret},
	} {
		if runtime.configured == "" {
			checks = append(checks, Check{
				Name: "runtime " + runtime.name, Status: CheckInfo, Detail: "not configured: " + runtime.is,
				Fix: "write code: {runtimes: {" + runtime.name + ": " + runtime.line + "}}",
			})
		}
	}
	return checks
}

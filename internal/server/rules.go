package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/panics"
)

// rulesPeriod is the interval at which the files of rules and manifests are polled.
// They may be in any folder and are few, so polling is simpler than watching.
const rulesPeriod = 2 * time.Second

// watchRules applies changed rules and manifests, until ctx ends. watchConfig watches
// the config itself.
func watchRules(ctx context.Context, r *app.App, log *slog.Logger) {
	tick := time.NewTicker(rulesPeriod)
	defer tick.Stop()
	last, _ := r.PolicyStamps()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, now := r.PolicyStamps()
		if now == last {
			continue
		}
		last = now
		panics.Log(log, "reading changed rules", func() {
			if err := r.ReloadPolicy(); err != nil {
				log.Error("cannot apply the changed rules; the previous ones stay in force", "error", err)
			}
		})
	}
}

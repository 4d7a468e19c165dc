package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/toolroom/toolroom/room"
)

// rulesPeriod is how often the files of rules and manifests are looked at. They
// may be in any folder and are few: looking is simpler than being told.
const rulesPeriod = 2 * time.Second

// watchRules puts changed rules and manifests in force, until ctx ends. The
// config itself is watched elsewhere.
func watchRules(ctx context.Context, r *room.Room, log *slog.Logger) {
	tick := time.NewTicker(rulesPeriod)
	defer tick.Stop()
	last := stamps(r.PolicyFiles())
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stamps(r.PolicyFiles())
		if now == last {
			continue
		}
		last = now
		if err := r.ReloadPolicy(); err != nil {
			log.Error("the changed rules are not used; those before stay in force", "error", err)
		}
	}
}

// stamps tells versions of files apart, by size and time.
func stamps(files []string) string {
	var b strings.Builder
	for _, file := range files {
		b.WriteString(file)
		if info, err := os.Stat(file); err == nil {
			fmt.Fprintf(&b, " %d %d", info.ModTime().UnixNano(), info.Size())
		}
		b.WriteByte(0)
	}
	return b.String()
}

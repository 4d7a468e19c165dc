package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/visible"
)

// sourceOfAll returns the source that an argument SOURCE:* names.
func sourceOfAll(args []string) (name string, ok bool) {
	name, ok = strings.CutSuffix(args[0], ":*")
	return name, ok && name != "" && len(args) == 1
}

// printWaiting prints the definitions of a source that wait for a release.
func (a *cli) printWaiting(w *app.QuarantinedSource) error {
	var out strings.Builder
	for _, t := range w.Tools {
		if t.Served == 0 {
			fmt.Fprintf(&out, "%s version %d, not released yet\n", t.Tool, t.Version)
		} else {
			fmt.Fprintf(&out, "%s version %d instead of %d\n", t.Tool, t.Version, t.Served)
		}
		for _, c := range t.Changes {
			fmt.Fprintf(&out, "  %s\n", c.Path)
			for _, side := range []struct{ sign, text string }{{"-", c.Old}, {"+", c.New}} {
				if side.text != "" {
					fmt.Fprintf(&out, "  %s %s\n", side.sign, visible.Text(side.text))
				}
			}
		}
		if len(t.Breaks) > 0 {
			fmt.Fprintf(&out, "  breaks callers: %s\n", strings.Join(t.Breaks, "; "))
		}
	}
	fmt.Fprintf(&out, "%s: %s for a release\n", w.Source, countWaiting(len(w.Tools)))
	for _, f := range w.Found {
		fmt.Fprintf(&out, "suspicious: %s\n", oneLine(f.String()))
	}
	if err := a.screen.review(out.String()); err != nil {
		return err
	}
	if len(w.Tools) > 0 {
		a.screen.say("release them: toolroom tool release '%s:*' --digest %s", w.Source, w.Digest)
	}
	return nil
}

// countWaiting returns "1 definition waits" or "n definitions wait".
func countWaiting(n int) string {
	if n == 1 {
		return "1 definition waits"
	}
	return fmt.Sprintf("%d definitions wait", n)
}

// releaseWaiting releases all definitions of a source that wait.
func (a *cli) releaseWaiting(ctx context.Context, r *app.App, name, digest string, o release.Order) error {
	w, err := r.QuarantinedSource(ctx, name)
	if err != nil {
		return err
	}
	if digest == "" && len(w.Tools) > 0 {
		return usage("toolroom tool diff '"+name+":*'", "name the --digest of the definitions that you have looked at")
	}
	if digest != "" && digest != w.Digest {
		return toolroom.Errorf(toolroom.CodeConflict, "the definitions of %s have changed since then", name).
			WithCLIHint("look at them again: toolroom tool diff '%s:*'", name)
	}
	if len(w.Tools) == 0 {
		a.screen.say("no definition of %s waits for a release", name)
		return nil
	}
	orders := make([]release.Order, 0, len(w.Tools))
	for _, t := range w.Tools {
		o.Tool, o.Version = t.Tool, t.Version
		orders = append(orders, o)
	}
	done, failed := r.Parts().Releases.ReleaseAll(ctx, orders, a.author())
	if a.asJSON {
		return errors.Join(a.screen.json(done), failed)
	}
	for _, moved := range done {
		if err := a.printMove(moved); err != nil {
			return err
		}
	}
	return failed
}

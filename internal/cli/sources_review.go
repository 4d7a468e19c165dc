package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/pin"
	"github.com/toolroom/toolroom/internal/visible"
)

func (a *cli) sourcesReviewCommand() *cobra.Command {
	var accept, asJSON bool
	var digest string
	c := &cobra.Command{
		Use:   "review NAME",
		Short: "Review new and changed tool definitions of a source",
		Long: `Start a source and compare its tool definitions with those that were accepted
before. A changed definition, or a new one in quarantine, cannot be called until a
person accepts it with --accept. With --digest from an earlier review, only the
definitions shown in that review are accepted.`,
		Example: `  toolroom sources review github
  toolroom sources review github --accept --digest 3fa9c1d2b7e0`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeSource,
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			review, err := r.ReviewSource(ctx, args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = a.screen.json(review)
			} else {
				err = a.printReview(review)
			}
			switch {
			case err != nil:
				return err
			case accept && digest != "" && digest != review.Digest:
				return toolroom.Errorf(toolroom.CodeConflict, "the definitions of %s have changed since that review", args[0]).
					WithHint("review them again, and accept them with --digest %s", review.Digest)
			case accept:
				if err := r.AcceptReview(ctx, review); err != nil {
					return err
				}
				a.screen.say("accepted the current definitions of %s", args[0])
			case digest != "":
				return usage("toolroom sources review "+args[0]+" --accept --digest "+digest, "--digest requires --accept")
			case review.Open():
				a.screen.say("accept these definitions: toolroom sources review %s --accept --digest %s", args[0], review.Digest)
			}
			return nil
		}),
	}
	f := c.Flags()
	f.BoolVar(&accept, "accept", false, "accept the current definitions")
	f.StringVar(&digest, "digest", "", "with --accept: the digest that your review printed")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func (a *cli) printReview(review *app.Review) error {
	var out strings.Builder
	counts := map[pin.State]int{}
	for _, d := range review.Tools {
		counts[d.State]++
		if d.State == pin.Same {
			continue
		}
		fmt.Fprintf(&out, "%s %s\n", d.Tool, d.State)
		for _, c := range d.Changes {
			fmt.Fprintf(&out, "  %s\n", c.Path)
			for _, side := range []struct{ sign, text string }{{"-", c.Old}, {"+", c.New}} {
				if side.text != "" {
					fmt.Fprintf(&out, "  %s %s\n", side.sign, visible.Text(side.text))
				}
			}
		}
	}
	fmt.Fprintf(&out, "%s: %d unchanged, %d changed, %d new, %d removed; %d quarantined\n",
		review.Source, counts[pin.Same], counts[pin.Changed], counts[pin.New], counts[pin.Gone], review.Quarantined)
	for _, f := range review.Findings {
		fmt.Fprintf(&out, "suspicious: %s\n", oneLine(f.String()))
	}
	return a.screen.text(out.String())
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pin"
	"github.com/toolroom/toolroom/room"
)

func (a *app) sourcesReviewCommand() *cobra.Command {
	var accept, asJSON bool
	var digest string
	c := &cobra.Command{
		Use:   "review NAME",
		Short: "Show what a source says of its tools, what has changed, and what looks like an attack",
		Long: `Start a source and compare what it says of its tools with what was taken of it
before. A tool that says something else, or is new in quarantine, is not called
until a person has taken it with --accept. Give --digest with what an earlier
review printed, and nothing else is taken than what you have seen there.`,
		Example: `  toolroom sources review github
  toolroom sources review github --accept --digest 3fa9c1d2b7e0`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeSource,
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
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
				return toolroom.Errorf(toolroom.CodeConflict, "%s offers something else than at that review", args[0]).
					WithHint("look again, and take it with --digest %s", review.Digest)
			case accept:
				if err := r.AcceptReview(ctx, review); err != nil {
					return err
				}
				a.screen.say("%s is taken as it is now", args[0])
			case digest != "":
				return usage("toolroom sources review "+args[0]+" --accept --digest "+digest, "--digest goes with --accept")
			case review.Open():
				a.screen.say("take it as it is: toolroom sources review %s --accept --digest %s", args[0], review.Digest)
			}
			return nil
		}),
	}
	f := c.Flags()
	f.BoolVar(&accept, "accept", false, "take the definitions as they are now")
	f.StringVar(&digest, "digest", "", "with --accept: what the review that you have read printed")
	f.BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

func (a *app) printReview(review *room.Review) error {
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
					fmt.Fprintf(&out, "  %s %s\n", side.sign, review.Visible(side.text))
				}
			}
		}
	}
	fmt.Fprintf(&out, "%s: %d as taken, %d changed, %d new, %d gone; %d held back\n",
		review.Source, counts[pin.Same], counts[pin.Changed], counts[pin.New], counts[pin.Gone], review.Held)
	for _, f := range review.Findings {
		fmt.Fprintf(&out, "look at %s\n", oneLine(f.String()))
	}
	return a.screen.text(out.String())
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/room"
)

func (a *app) secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep values that the config may name and nobody may read",
		Example: `  toolroom secret set github/token
  printf %s "$TOKEN" | toolroom secret set github/token`,
	}
	onlyHolds(c)
	c.AddCommand(a.secretSetCommand(), a.secretListCommand(), a.secretRemoveCommand())
	return c
}

// forFlag lets a command mean the value of one identity.
func forFlag(c *cobra.Command, owner *string) {
	c.Flags().StringVar(owner, "for", "", "the identity whose own value is meant, in place of the shared one")
}

func (a *app) secretSetCommand() *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use:   "set SCOPE/NAME",
		Short: "Keep a value, typed at a prompt or piped in",
		Long: `Keep a value under secret://SCOPE/NAME. It is typed at a prompt that does not
show it, or read from stdin; never given as an argument, which other users of
the machine can see.`,
		Example: `  toolroom secret set github/token
  printf %s "$TOKEN" | toolroom secret set github/token
  toolroom secret set github/token --for ann`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			ref, err := secret.ParsePath(args[0])
			if err != nil {
				return err
			}
			ref = ref.Of(owner)
			value, err := a.screen.secret(ctx, "Value of "+named(ref)+": ", secret.MaxValue)
			if err != nil {
				return err
			}
			if err := r.Parts().Secrets.Set(ctx, ref, value); err != nil {
				return err
			}
			return a.screen.printf("%s is set; write %s in toolroom.yaml where the value belongs\n", named(ref), ref)
		}),
	}
	forFlag(c, &owner)
	return c
}

// named is a reference, with whose value it is.
func named(ref secret.Ref) string {
	if ref.Owner == "" {
		return ref.String()
	}
	return ref.String() + " for " + ref.Owner
}

func (a *app) secretListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the names that have values",
		Example: "  toolroom secret list",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(_ context.Context, r *room.Room, _ []string) error {
			refs, err := r.Parts().Secrets.List()
			if err != nil {
				return err
			}
			names := make([]string, len(refs))
			for i, ref := range refs {
				names[i] = named(ref)
			}
			if asJSON {
				return a.screen.json(names)
			}
			if len(names) == 0 {
				a.screen.say("No secret is set.")
			}
			for _, name := range names {
				if err := a.screen.printf("%s\n", name); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	return c
}

func (a *app) secretRemoveCommand() *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use:     "remove SCOPE/NAME",
		Aliases: []string{"rm"},
		Short:   "Forget a value",
		Example: "  toolroom secret remove github/token",
		Args:    arguments(1, 1),
		ValidArgsFunction: a.complete(func(_ context.Context, r *room.Room) []string {
			refs, err := r.Parts().Secrets.List()
			if err != nil {
				return nil
			}
			var words []string
			for _, ref := range refs {
				words = append(words, ref.Scope+"/"+ref.Name)
			}
			return words
		}),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			ref, err := secret.ParsePath(args[0])
			if err != nil {
				return err
			}
			ref = ref.Of(owner)
			if err := r.Parts().Secrets.Remove(ctx, ref); err != nil {
				return err
			}
			return a.screen.printf("%s is forgotten\n", named(ref))
		}),
	}
	forFlag(c, &owner)
	return c
}

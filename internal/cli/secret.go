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

func (a *app) secretSetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set SCOPE/NAME",
		Short: "Keep a value, typed at a prompt or piped in",
		Long: `Keep a value under secret://SCOPE/NAME. It is typed at a prompt that does not
show it, or read from stdin; never given as an argument, which other users of
the machine can see.`,
		Example: `  toolroom secret set github/token
  printf %s "$TOKEN" | toolroom secret set github/token`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			ref, err := secret.ParsePath(args[0])
			if err != nil {
				return err
			}
			value, err := a.screen.secret(ctx, "Value of "+ref.String()+": ", secret.MaxValue)
			if err != nil {
				return err
			}
			if err := r.Parts().Secrets.Set(ctx, ref, value); err != nil {
				return err
			}
			return a.screen.printf("%s is set; write it in toolroom.yaml where the value belongs\n", ref)
		}),
	}
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
				names[i] = ref.String()
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
	return &cobra.Command{
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
			if err := r.Parts().Secrets.Remove(ctx, ref); err != nil {
				return err
			}
			return a.screen.printf("%s is forgotten\n", ref)
		}),
	}
}

package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
)

func (a *cli) secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Manage secrets",
		Example: `  toolroom secret set github/token
  printf %s "$TOKEN" | toolroom secret set github/token`,
	}
	requireSubcommand(c)
	c.AddCommand(a.secretSetCommand(), a.secretLiftCommand(), a.secretListCommand(), a.secretRemoveCommand())
	return c
}

// addOwnerFlag adds the flag that selects the secret's value for one identity.
func addOwnerFlag(c *cobra.Command, owner *string) {
	c.Flags().StringVar(owner, "for", "", "use the secret of this identity instead of the shared one")
}

func (a *cli) secretSetCommand() *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use:   "set SCOPE/NAME",
		Short: "Store a secret, typed at a prompt or piped in",
		Long: `Store a secret as secret://SCOPE/NAME. Type it at a prompt that does not echo, or
pipe it in. It is never an argument, because other users of the machine can see
arguments.`,
		Example: `  toolroom secret set github/token
  printf %s "$TOKEN" | toolroom secret set github/token
  toolroom secret set github/token --for ann`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 { // what follows may be the value, which is not repeated
				return usage("type the value at the prompt of: toolroom secret set SCOPE/NAME\nor pipe it in: printf %s \"$TOKEN\" | toolroom secret set SCOPE/NAME",
					"the value of a secret is never an argument")
			}
			return arguments(1, 1)(c, args)
		},
		RunE: a.withState(func(ctx context.Context, r *app.App, args []string) error {
			ref, err := secret.ParsePath(args[0])
			if err != nil {
				return err
			}
			ref = ref.Of(owner)
			value, err := a.screen.secret(ctx, "Value of "+describeRef(ref)+": ", secret.MaxValue)
			if err != nil {
				return err
			}
			err = r.Parts().Secrets.Set(ctx, ref, value)
			if err := a.recordIn(ctx, r, "secrets.set", changeArguments{Name: args[0], Owner: owner}, err); err != nil {
				return err
			}
			return a.screen.printf("stored %s; refer to it in toolroom.yaml as %s\n", describeRef(ref), ref)
		}),
	}
	addOwnerFlag(c, &owner)
	return c
}

// describeRef returns a reference, with the identity to which it belongs if there is one.
func describeRef(ref secret.Ref) string {
	if ref.Owner == "" {
		return ref.String()
	}
	return ref.String() + " for " + ref.Owner
}

func (a *cli) secretLiftCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lift [SOURCE]",
		Short: "Move secrets from the config into the store",
		Long: `Move values that look like secrets from the config to the secret store: variables,
headers and credentials in plain text, of one source or of all. The config then refers
to them.`,
		Example: `  toolroom secret lift github
  toolroom secret lift`,
		Args:              arguments(0, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.findConfig()
			if err != nil {
				return err
			}
			before := config.Default()
			if file != "" {
				if before, err = config.LoadVerified(file, a.verifier(file)); err != nil {
					return err
				}
			}
			names := slices.Sorted(maps.Keys(before.Sources))
			if len(args) > 0 {
				if _, ok := before.Source(args[0]); !ok {
					return toolroom.Errorf(toolroom.CodeNotFound, "there is no source %s", args[0]).WithHint("list the sources: toolroom sources list")
				}
				names = args
			}
			lifted := 0
			for _, name := range names {
				_, secrets := config.LiftSecrets(name, before.Sources[name])
				if len(secrets) == 0 {
					continue
				}
				if err := a.addSource(c.Context(), file, name, before.Sources[name], true); err != nil {
					return err
				}
				lifted += len(secrets)
			}
			return a.screen.printf("moved %s into the store\n", count(lifted, "secret"))
		},
	}
}

func (a *cli) secretListCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:        "list",
		SuggestFor: []string{"get", "show"}, // values are never shown
		Short:      "List the names of secrets",
		Example:    "  toolroom secret list",
		Args:       arguments(0, 0),
		RunE: a.withState(func(_ context.Context, r *app.App, _ []string) error {
			refs, err := r.Parts().Secrets.List()
			if err != nil {
				return err
			}
			names, err := pageOf(a, &p, textsOf(refs, describeRef), func(name string) string { return name })
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(names)
			}
			if len(names) == 0 {
				a.screen.say("There are no secrets.")
			}
			for _, name := range names {
				if err := a.screen.printf("%s\n", name); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	p.flags(c, 100)
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) secretRemoveCommand() *cobra.Command {
	var owner string
	c := &cobra.Command{
		Use:        "remove SCOPE/NAME",
		SuggestFor: removalWords,
		Aliases:    []string{"rm"},
		Short:      "Remove a secret",
		Example:    "  toolroom secret remove github/token",
		Args:       arguments(1, 1),
		ValidArgsFunction: a.complete(func(_ context.Context, r *app.App) []string {
			refs, err := r.Parts().Secrets.List()
			if err != nil {
				return nil
			}
			return textsOf(refs, func(ref secret.Ref) string { return ref.Scope + "/" + ref.Name })
		}),
		RunE: a.withState(func(ctx context.Context, r *app.App, args []string) error {
			ref, err := secret.ParsePath(args[0])
			if err != nil {
				return err
			}
			ref = ref.Of(owner)
			err = r.Parts().Secrets.Remove(ctx, ref)
			if err := a.recordIn(ctx, r, "secrets.remove", changeArguments{Name: args[0], Owner: owner}, err); err != nil {
				return err
			}
			return a.screen.printf("removed %s\n", describeRef(ref))
		}),
	}
	addOwnerFlag(c, &owner)
	return c
}

package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/token"
)

func (a *cli) tokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "token",
		Short:   "Manage access tokens",
		Example: "  toolroom token create ann --expires 720h",
	}
	requireSubcommand(c)
	c.AddCommand(a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
	return c
}

func (a *cli) tokenCreateCommand() *cobra.Command {
	var o token.Options
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token, which is shown only once",
		Example: `  toolroom token create ann
  toolroom token create staging --env test
  toolroom token create ci --subject build --groups ops,release --agent fast --expires 720h --json`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			o.Name = args[0]
			if err := r.CheckSet(o.Set); err != nil {
				return err
			}
			if err := r.CheckEnvironment(o.Environment); err != nil {
				return err
			}
			plaintext, t, err := token.Create(ctx, r.Parts().Tokens, o)
			if err := a.recordIn(ctx, r, "tokens.create", newToken{changeArguments{Name: o.Name}, o.Subject, o.Groups, o.Agent, o.Provider, o.Skill, o.Set, o.Environment, formatLifetime(o.TTL)}, err); err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(struct {
					token.Token
					Plaintext string `json:"token"`
				}{t, plaintext})
			}
			a.screen.say("Token %s of %s. It cannot be shown again. Send it as: Authorization: Bearer …", t.ID, t.Subject)
			return a.screen.printf("%s\n", plaintext)
		}),
	}
	f := c.Flags()
	f.StringVar(&o.Subject, "subject", "", "identity of the token (default NAME)")
	f.StringSliceVar(&o.Groups, "groups", nil, "groups of that subject")
	f.StringVar(&o.Agent, "agent", "", "the one agent that may use it")
	f.StringVar(&o.Provider, "provider", "", "the one model provider that may use it")
	f.StringVar(&o.Skill, "skill", "", "the one skill that may use it")
	f.StringVar(&o.Set, "set", "", "the tool set that it is bound to")
	f.StringVar(&o.Environment, "env", "", "the one environment whose released versions it can call")
	f.DurationVar(&o.TTL, "expires", 0, "lifetime, such as 720h (default: until revoked)")
	a.jsonFlag(c, "print JSON")
	return c
}

// newToken are the arguments in the receipt of a new token.
type newToken struct {
	changeArguments
	Subject     string   `json:"subject,omitempty"`
	Groups      []string `json:"groups,omitempty"`
	Agent       string   `json:"agent,omitempty"`
	Provider    string   `json:"provider,omitempty"`
	Skill       string   `json:"skill,omitempty"`
	Set         string   `json:"set,omitempty"`
	Environment string   `json:"environment,omitempty"`
	Expires     string   `json:"expires,omitempty"`
}

func formatLifetime(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (a *cli) tokenListCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the tokens",
		Example: "  toolroom token list --json",
		Args:    arguments(0, 0),
		RunE: a.withState(func(ctx context.Context, r *app.App, _ []string) error {
			tokens, err := r.Parts().Tokens.Tokens(ctx)
			if err != nil {
				return err
			}
			slices.Reverse(tokens) // newest first
			if tokens, err = pageOf(a, &p, tokens, func(t *token.Token) string { return t.ID }); err != nil {
				return err
			}
			headers := []string{"ID", "NAME", "SUBJECT", "AGENT", "PROVIDER", "SKILL", "SET", "ENV", "STATE", "LAST USED", "GROUPS"}
			return showList(a, tokens, "There are no tokens. Create one: toolroom token create NAME", headers, func(t *token.Token) []string {
				return []string{t.ID, t.Name, t.Subject, t.Agent, t.Provider, t.Skill, t.Set, t.Environment, tokenState(t, time.Now()), cmp.Or(formatTime(t.LastUsed), "never"), strings.Join(t.Groups, ",")}
			})
		}),
	}
	p.flags(c, 100)
	a.jsonFlag(c, "print JSON")
	return c
}

func tokenState(t *token.Token, now time.Time) string {
	switch {
	case !t.Revoked.IsZero() && !t.Revoked.Equal(t.Expires):
		return "revoked"
	case t.Expires.IsZero():
		return "valid"
	case !now.Before(t.Expires), !t.Revoked.IsZero():
		return "expired"
	default:
		return "valid until " + formatTime(t.Expires)
	}
}

func (a *cli) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "revoke {ID|NAME}",
		SuggestFor: removalWords,
		Short:      "Revoke a token immediately",
		Example:    "  toolroom token revoke ann",
		Args:       arguments(1, 1),
		ValidArgsFunction: a.complete(func(ctx context.Context, r *app.App) []string {
			tokens, err := r.Parts().Tokens.Tokens(ctx)
			if err != nil {
				return nil
			}
			var words []string
			for _, t := range tokens {
				if t.Revoked.IsZero() {
					words = append(words, cobra.CompletionWithDesc(t.ID, t.Name))
				}
			}
			return words
		}),
		RunE: a.withState(func(ctx context.Context, r *app.App, args []string) error {
			id, err := tokenID(ctx, r.Parts().Tokens, args[0])
			if err != nil {
				return err
			}
			tokens, err := r.Parts().Tokens.Tokens(ctx)
			if err != nil {
				return err
			}
			for _, t := range tokens {
				if t.ID == id && !t.Revoked.IsZero() && !t.Revoked.Equal(t.Expires) {
					return a.screen.printf("token %s was revoked at %s already\n", id, formatTime(t.Revoked))
				}
			}
			if err := a.revokeToken(ctx, r, id); err != nil {
				return err
			}
			return a.screen.printf("revoked token %s\n", id)
		}),
	}
}

// tokenID returns the id of a token, given its id or a name that only one token has.
func tokenID(ctx context.Context, store token.Store, word string) (string, error) {
	tokens, err := store.Tokens(ctx)
	if err != nil {
		return "", err
	}
	id, err := nearest.ID(word, textsOf(tokens, func(t *token.Token) string { return t.ID }))
	if err != nil {
		return "", err
	}
	var named []string
	for _, t := range tokens {
		if t.ID == id {
			return id, nil
		}
		if t.Name == word && t.Revoked.IsZero() {
			named = append(named, t.ID)
		}
	}
	switch len(named) {
	case 0:
		return "", toolroom.Errorf(toolroom.CodeNotFound, "token %q not found", word).WithHint("toolroom token list")
	case 1:
		return named[0], nil
	}
	return "", toolroom.Errorf(toolroom.CodeConflict, "%d tokens are named %q", len(named), word).
		WithHint("use an id: %s", strings.Join(named, ", "))
}

func (a *cli) revokeToken(ctx context.Context, r *app.App, id string) error {
	err := r.Parts().Tokens.RevokeToken(ctx, id, time.Now())
	return a.recordIn(ctx, r, "tokens.revoke", changeArguments{Name: id}, err)
}

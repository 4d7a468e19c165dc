package cli

import (
	"cmp"
	"context"
	_ "embed"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/source"
)

func (a *cli) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion {bash|zsh|fish}",
		Short: "Print a shell completion script",
		Example: `  source <(toolroom completion bash)
  toolroom completion zsh > "${fpath[1]}/_toolroom"
  toolroom completion fish > ~/.config/fish/completions/toolroom.fish`,
		Args:      arguments(1, 1),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, args []string) error {
			switch args[0] {
			case "bash":
				if err := c.Root().GenBashCompletionV2(a.Out, true); err != nil {
					return err
				}
				_, err := io.WriteString(a.Out, bashWords)
				return err
			case "zsh":
				return c.Root().GenZshCompletion(a.Out)
			case "fish":
				return c.Root().GenFishCompletion(a.Out, true)
			}
			return usage("toolroom completion bash", "unsupported shell %q", args[0])
		},
	}
}

// bashWords makes the script for bash work also where the package
// bash-completion is not installed.
//
//go:embed words.bash
var bashWords string

// completionTime limits one completion.
const completionTime = 2 * time.Second

// completeFrom opens the room and returns candidates from what it already knows, because a
// press of Tab should start no server. After an error there are none.
func (a *cli) completeFrom(c *cobra.Command, from candidates) []string {
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	r, err := a.openRoom(ctx, slog.LevelError)
	if err != nil {
		return nil
	}
	defer r.Close()
	return from(ctx, r)
}

type (
	completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)
	// candidates returns the possible values of an argument or flag that a room knows.
	candidates = func(context.Context, *app.App) []string
)

// complete completes the first argument from the room.
func (a *cli) complete(from candidates) completion {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return startingWith(typed, a.completeFrom(c, from)), cobra.ShellCompDirectiveNoFileComp
	}
}

func startingWith(typed string, words []string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, typed) })
}

func toolCandidates(_ context.Context, r *app.App) []string {
	tools, err := listTools(r, operator(), catalog.ListOptions{})
	if err != nil {
		return nil
	}
	words := make([]string, len(tools))
	for i, t := range tools {
		words[i] = cobra.CompletionWithDesc(t.ID.String(), oneLine(catalog.Shorten(cmp.Or(t.Title, t.Description), 60)))
	}
	return words
}

func sourceCandidates(_ context.Context, r *app.App) []string {
	return textsOf(r.Sources(), func(s source.Status) string { return cobra.CompletionWithDesc(s.Name, string(s.Kind)) })
}

func approvalCandidates(ctx context.Context, r *app.App) []string {
	pending, err := r.Approvals(ctx, toolroom.ApprovalPending)
	if err != nil {
		return nil
	}
	return textsOf(pending, func(p *toolroom.Approval) string { return cobra.CompletionWithDesc(p.ID, p.Tool) })
}

// completeCall completes the tool and then its argument names, without a space after them.
func (a *cli) completeCall(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return a.complete(toolCandidates)(c, args, typed)
	}
	if key, value, ok := strings.Cut(typed, "="); ok {
		words := a.completeFrom(c, func(ctx context.Context, r *app.App) []string { return valueCandidates(ctx, r, args[0], key) })
		if strings.HasPrefix(value, "@") || len(words) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return startingWith(typed, words), cobra.ShellCompDirectiveNoFileComp
	}
	words := a.completeFrom(c, func(ctx context.Context, r *app.App) []string {
		d, err := r.Describe(ctx, operator(), args[0], toolroom.LevelSchema, toolroom.FormCLI)
		if err != nil {
			return nil
		}
		s := shapeOf(d.InputSchema)
		var words []string
		for _, name := range s.names() {
			member, _ := s.member(name)
			words = append(words, cobra.CompletionWithDesc(name+"=", truncate(oneLine(member.description()), 60)))
		}
		return words
	})
	return startingWith(typed, words), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// valueCandidates returns the possible values of an argument, if the schema lists them.
func valueCandidates(ctx context.Context, r *app.App, tool, key string) []string {
	d, err := r.Describe(ctx, operator(), tool, toolroom.LevelSchema, toolroom.FormCLI)
	if err != nil {
		return nil
	}
	member, ok := shapeOf(d.InputSchema).member(key)
	if !ok {
		return nil
	}
	var words []string
	for _, value := range member.values() {
		words = append(words, key+"="+value)
	}
	return words
}

// completeFlag completes a flag from the room.
func (a *cli) completeFlag(c *cobra.Command, flag string, from candidates) {
	must(c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return a.complete(from)(c, nil, typed)
	}))
}

// completeValues completes a flag whose value is one of a few words.
func completeValues(c *cobra.Command, flag string, words ...string) {
	must(c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)))
}

// must panics on mistakes in this package, such as a flag that does not exist.
func must(err error) {
	if err != nil {
		panic(toolroom.Errorf(toolroom.CodeInternal, "invalid command definition: %w", err))
	}
}

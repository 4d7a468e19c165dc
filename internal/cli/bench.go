package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/internal/search/bench"
)

func (a *cli) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		Short:   "Run benchmarks",
		Example: "  toolroom bench search --tools T.jsonl --queries Q.jsonl\n  toolroom bench tools",
	}
	requireSubcommand(c)
	c.AddCommand(a.benchSearchCommand(), a.benchToolsCommand())
	return c
}

func (a *cli) benchSearchCommand() *cobra.Command {
	var tools, queries, embedder string
	var o bench.Options
	c := &cobra.Command{
		Use:   "search --tools T.jsonl --queries Q.jsonl",
		Short: "Measure the quality and speed of tool search",
		Long: `Measure the quality and speed of tool search. Both files hold one JSON object
per line: tools {"id", "name", "description", "schema"}, queries {"text",
"relevant": [ids]}. --embedder adds search by meaning, with an embedder of this home. --uses N
treats N queries of each tool as earlier searches that led to a call of it, and measures
the other queries.`,
		Example: `  toolroom bench search --tools T.jsonl --queries Q.jsonl --json
  toolroom bench search --tools T.jsonl --queries Q.jsonl --embedder minilm --sample 500
  toolroom bench search --tools T.jsonl --queries Q.jsonl --uses 20`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if tools == "" || queries == "" {
				return usage(c.UseLine(), "toolroom bench search needs --tools and --queries")
			}
			var report bench.Report
			run := func() (err error) {
				report, err = benchSearch(tools, queries, o)
				return err
			}
			measure := run
			if embedder != "" {
				measure = func() error { return a.withEmbedder(c.Context(), embedder, &o, run) }
			}
			if err := measure(); err != nil {
				return err
			}
			return show(a, report, a.printBench)
		},
	}
	f := c.Flags()
	f.StringVar(&tools, "tools", "", "file of tools, one JSON object per line")
	f.StringVar(&queries, "queries", "", "file of queries, one JSON object per line")
	f.StringVar(&embedder, "embedder", "", "also search by meaning, with this embedder of the home")
	f.Float64Var(&o.Weight, "weight", 1, "weight of meaning relative to words")
	f.IntVar(&o.Uses, "uses", 0, "queries of each tool that search has learned from")
	f.IntVar(&o.Sample, "sample", 0, "measure only this many of the queries")
	a.jsonFlag(c, "print JSON")
	return c
}

// withEmbedder runs a benchmark with an embedder of this home.
func (a *cli) withEmbedder(ctx context.Context, name string, o *bench.Options, run func() error) error {
	known, err := embed.LoadRegistry(a.home)
	if err != nil {
		return err
	}
	entry, ok := known.Embedders[name]
	if !ok {
		return usage("toolroom search embedder list", "there is no embedder %q", name)
	}
	return a.inRoom(ctx, func(r *app.App) error {
		service, err := r.Embedder(entry)
		if err != nil {
			return err
		}
		defer service.Close()
		o.Embed = func(texts []string) ([][]float32, error) {
			vectors := make([][]float32, 0, len(texts))
			for part := range slices.Chunk(texts, 8) {
				found, err := service.Embed(ctx, part)
				if err != nil {
					return nil, err
				}
				vectors = append(vectors, found...)
				a.screen.progress(fmt.Sprintf("embedded %d of %d texts", len(vectors), len(texts)))
			}
			a.screen.progress("")
			return vectors, nil
		}
		return run()
	})
}

func benchSearch(tools, queries string, o bench.Options) (bench.Report, error) {
	t, err := os.Open(tools)
	if err != nil {
		return bench.Report{}, usage("", "%s", err)
	}
	defer t.Close()
	q, err := os.Open(queries)
	if err != nil {
		return bench.Report{}, usage("", "%s", err)
	}
	defer q.Close()
	report, err := bench.Run(t, q, o)
	if _, ok := errors.AsType[*bench.LineError](err); ok {
		return report, usage("", "%s", err)
	}
	return report, err
}

func (a *cli) printBench(r bench.Report) error {
	_, err := io.WriteString(a.Out, fmt.Sprintf(`%d tools, %d queries
R@1     %.3f
R@5     %.3f
R@10    %.3f
nDCG@10 %.3f
index   %.1f ms
search  p50 %.3f ms, p99 %.3f ms, max %.3f ms
at %d tools: p50 %.3f ms, p99 %.3f ms
%s`, r.Tools, r.Queries, r.RecallAt1, r.RecallAt5, r.RecallAt10, r.NDCGAt10, r.Index, r.Latency.P50, r.Latency.P99, r.Latency.Max, bench.LargeTools, r.Large.P50, r.Large.P99, extraFigures(r)))
	return err
}

// extraFigures formats the figures of searches that used learned queries or an embedder.
func extraFigures(r bench.Report) string {
	text := ""
	if r.Taught > 0 {
		text += fmt.Sprintf("after   %d uses, whose queries are not asked\n", r.Taught)
	}
	if r.Embed > 0 {
		text += fmt.Sprintf("embed   %.1f ms a text\n", r.Embed)
	}
	return text
}

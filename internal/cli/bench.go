package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/search/bench"
)

func (a *cli) benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		Short:   "Run benchmarks",
		Example: "  toolroom bench search --tools T.jsonl --queries Q.jsonl",
	}
	onlyHolds(c)
	c.AddCommand(a.benchSearchCommand())
	return c
}

func (a *cli) benchSearchCommand() *cobra.Command {
	var tools, queries string
	var asJSON bool
	c := &cobra.Command{
		Use:   "search --tools T.jsonl --queries Q.jsonl",
		Short: "Measure the quality and speed of tool search",
		Long: `Measure the quality and speed of tool search. Both files hold one JSON object
per line: tools {"id", "name", "description", "schema"}, queries {"text",
"relevant": [ids]}.`,
		Example: "  toolroom bench search --tools T.jsonl --queries Q.jsonl --json",
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if tools == "" || queries == "" {
				return usage(c.UseLine(), "toolroom bench search needs --tools and --queries")
			}
			report, err := benchSearch(tools, queries)
			if err != nil {
				return err
			}
			if asJSON {
				return a.screen.json(report)
			}
			return a.printBench(report)
		},
	}
	f := c.Flags()
	f.StringVar(&tools, "tools", "", "file of tools, one JSON object per line")
	f.StringVar(&queries, "queries", "", "file of queries, one JSON object per line")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func benchSearch(tools, queries string) (bench.Report, error) {
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
	report, err := bench.Run(t, q, bench.Options{})
	var line *bench.LineError
	if errors.As(err, &line) {
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
`, r.Tools, r.Queries, r.RecallAt1, r.RecallAt5, r.RecallAt10, r.NDCGAt10, r.Index, r.Latency.P50, r.Latency.P99, r.Latency.Max, bench.LargeTools, r.Large.P50, r.Large.P99))
	return err
}

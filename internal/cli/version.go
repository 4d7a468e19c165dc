package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

const platform = runtime.GOOS + "/" + runtime.GOARCH

// versionLine returns the output of `toolroom version` and `toolroom --version`.
func (a *cli) versionLine() string {
	return fmt.Sprintf("toolroom %s (%s, %s)\n", a.Version, runtime.Version(), platform)
}

func (a *cli) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  toolroom version --json",
		Args:    arguments(0, 0),
		RunE: func(*cobra.Command, []string) error {
			if a.asJSON {
				return a.screen.json(struct {
					Version  string `json:"version"`
					Go       string `json:"go"`
					Platform string `json:"platform"`
				}{a.Version, runtime.Version(), platform})
			}
			return a.screen.printf("%s", a.versionLine())
		},
	}
	a.jsonFlag(c, "print JSON")
	return c
}

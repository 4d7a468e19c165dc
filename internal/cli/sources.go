package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/source"
)

func (a *cli) sourcesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "sources",
		Aliases: []string{"source"},
		Short:   "Manage tool sources",
		Example: `  toolroom sources add filesystem -- mcp-server-filesystem .
  toolroom sources test filesystem
  toolroom sources list`,
	}
	requireSubcommand(c)
	c.AddCommand(a.sourcesAddCommand(), a.sourcesListCommand(), a.sourcesTestCommand(), a.sourcesRemoveCommand(), a.sourcesLoginCommand(),
		a.sourcesEditCommand(), a.sourcesSwitchCommand("enable", false), a.sourcesSwitchCommand("disable", true), a.sourcesRestartCommand(), a.sourcesLogsCommand(), a.sourcesCatalogCommand())
	return c
}

func (a *cli) sourcesListCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:   "list",
		Short: "List the sources and their status",
		Long: `List the sources and their status. With -o wide, also show the sandbox of each program;
"none" means that the program has the rights of this user.`,
		Example: "  toolroom sources list --json",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(_ context.Context, r *app.App, _ []string) error {
			sources := append(r.Sources(), r.DisabledSources()...)
			slices.SortFunc(sources, func(a, b source.Status) int { return strings.Compare(a.Name, b.Name) })
			sources, err := pageOf(a, &p, sources, func(s source.Status) string { return s.Name })
			if err != nil {
				return err
			}
			headers := []string{"SOURCE", "KIND", "STATE", "TOOLS", ""}
			if a.screen.wide {
				headers = slices.Insert(headers, 4, "SANDBOX")
			}
			return showList(a, sources, "There are no sources yet. "+firstSteps, headers, a.sourceRow)
		}),
	}
	p.flags(c, 100)
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) sourceRow(s source.Status) []string {
	tools := "not listed yet"
	switch {
	case s.Listed:
		tools = fmt.Sprint(s.Tools)
	case s.State == app.StateDisabled:
		tools = ""
	}
	row := []string{s.Name, string(s.Kind), s.State, tools, cmp.Or(s.Error, s.Reason)}
	if a.screen.wide {
		row = slices.Insert(row, 4, cmp.Or(s.Sandbox, "-"))
	}
	return row
}

func (a *cli) sourcesTestCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "test NAME",
		Short:             "Start a source and list its tools",
		Example:           "  toolroom sources test filesystem",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			test, err := a.testSource(ctx, r, args[0])
			if err != nil {
				return err
			}
			if a.asJSON {
				if err := a.screen.json(test); err != nil {
					return err
				}
			}
			switch {
			case test.Error != "":
				a.screen.fail(test.Name+" does not work: "+test.Error, testHint(test.Status))
				return exitCode(toolroom.CodeUpstreamUnavailable.Info().Exit)
			case a.asJSON:
				return nil
			}
			return a.printTest(r, test)
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

// testSource starts a source and lists its tools.
func (a *cli) testSource(ctx context.Context, r *app.App, name string) (app.SourceTest, error) {
	done := a.screen.showActivity("starting " + name + " and listing its tools")
	test, err := r.TestSource(ctx, name)
	done()
	return test, cmp.Or(err, ctx.Err())
}

// maxLeftOut limits the lines about things that a source offers and that did not become tools.
const maxLeftOut = 10

// printTest prints the test of a source that works, and what MCP clients see now.
func (a *cli) printTest(r *app.App, test app.SourceTest) error {
	for _, line := range catalog.SummarizeFindings(test.Findings) {
		a.screen.say("suspicious: %s", oneLine(line))
	}
	if len(test.Findings) > 0 {
		a.screen.say("see each: toolroom tool diff '%s:*'", test.Name)
	}
	for _, problem := range test.Problems {
		a.screen.say("problem: %s", oneLine(problem))
	}
	for _, what := range test.LeftOut[:min(len(test.LeftOut), maxLeftOut)] {
		a.screen.say("left out: %s", oneLine(what))
	}
	also := ""
	if n := len(test.LeftOut); n > 0 {
		also = fmt.Sprintf("; %d left out", n)
	}
	if n := len(test.LeftOut) - maxLeftOut; n > 0 {
		a.screen.say("left out: %d more, see toolroom sources test %s --json", n, test.Name)
	}
	if err := a.screen.printf("%s works: %s in %s%s\n", test.Name, count(test.Tools, "tool"), formatDuration(test.Took), also); err != nil {
		return err
	}
	if all, err := server.Listings(r); err == nil {
		a.screen.say("%s", listingLine(all[0]))
	}
	if test.Name == "git" && r.Config().Builtin.On("git", true) {
		a.screen.say("The built-in git tools are off: this source has their name.")
	}
	a.sayDenied(r, test.Name)
	return nil
}

// sayDenied prints a warning if the policy lets no caller use a source.
func (a *cli) sayDenied(r *app.App, name string) {
	runner := r.Parts().Runner
	tools := runner.Catalog.All(func(e *catalog.Entry) bool { return e.Provider == name })
	if len(tools) == 0 || slices.ContainsFunc(tools, func(e *catalog.Entry) bool { return runner.Allowed(toolroom.Identity{}, e) }) {
		return
	}
	a.screen.say("warning: the policy lets nobody call a tool of %s\n  see why: toolroom policy explain %s", name, tools[0].Tool.ID)
}

// testHint returns the next step for a source that does not work. It omits the suggestion to
// test the source, because that has just been done.
func testHint(s source.Status) string {
	if s.Reason == "" || strings.Contains(s.Reason, "sources test") {
		if s.Sandbox == "" { // it has no program here
			return "check its address, and that it runs; then try again: toolroom sources test " + s.Name
		}
		hint := "show its output: toolroom sources test " + s.Name + " --log-level debug"
		if s.Sandbox != "" && s.Sandbox != "none" {
			hint = fmt.Sprintf("it runs in a sandbox (%s): folders that it needs must be named with --read or --write, and in its arguments by full paths\n%s", s.Sandbox, hint)
		}
		return hint
	}
	return s.Reason
}

func (a *cli) sourcesRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "remove NAME",
		SuggestFor:        removalWords,
		Aliases:           []string{"rm"},
		Short:             "Remove a source from the config",
		Example:           "  toolroom sources remove filesystem",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.editable()
			if err != nil {
				return err
			}
			before, readErr := config.Load(file)
			err = config.RemoveSource(file, args[0], a.keepTrust(file))
			if err := a.record(c.Context(), "sources.remove", changeArguments{Name: args[0]}, err); err != nil {
				return err
			}
			if readErr == nil && len(before.Sources[args[0]].Scopes()) > 0 {
				a.screen.say("its secrets stay in the store: see toolroom secret list, toolroom secret remove")
			}
			return a.screen.printf("removed source %q from %s\n", args[0], file)
		},
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/source"
)

func (a *cli) sourcesEditCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "edit NAME",
		Short: "Edit a source of the config in your editor",
		Long: `Open the section of one source in $VISUAL or $EDITOR, check it, and write it to the
config. If the text has a mistake, edit it again or keep it in a file. With --from,
read the new section from a file instead (- is stdin).`,
		Example: `  toolroom sources edit filesystem
  toolroom sources edit filesystem --from filesystem.yaml`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.editable()
			if err != nil {
				return err
			}
			draft := &sourceDraft{cli: a, name: args[0], from: from}
			change := func() error {
				return config.ChangeSource(file, args[0], func(s config.Source) (config.Source, error) {
					text, err := draft.edit(c.Context(), s)
					if err != nil {
						return s, err
					}
					return config.ParseSource(args[0], text)
				}, nil, a.keepTrust(file))
			}
			err = change()
			for draft.editAgain(c.Context(), err) {
				err = change()
			}
			if err = draft.close(err); errors.Is(err, errUnchanged) {
				a.screen.say("nothing was changed")
				return nil
			}
			if err := a.record(c.Context(), "sources.edit", changeArguments{Name: args[0]}, err); err != nil {
				return err
			}
			return a.screen.printf("changed source %q in %s\n", args[0], file)
		},
	}
	c.Flags().StringVar(&from, "from", "", "read the section from this file instead")
	return c
}

// sourceDraft is the text of a source while a person edits it.
type sourceDraft struct {
	*cli
	name, from string
	// file holds the text in the editor, and before is the text with which it began. file is empty
	// until the editor is opened.
	file, before string
}

// edit returns the text of s as the person has changed it in the editor, or the file from. If
// the person changed nothing, the error is errUnchanged.
func (d *sourceDraft) edit(ctx context.Context, s config.Source) ([]byte, error) {
	if d.from != "" {
		return d.document(d.from)
	}
	if d.Editor == "" {
		return nil, usage("toolroom sources edit "+d.name+" --from FILE", "there is no editor: set VISUAL or EDITOR")
	}
	if d.file == "" { // otherwise it holds the text of the last attempt
		if err := d.open(s); err != nil {
			return nil, err
		}
	}
	words := append(strings.Fields(d.Editor), d.file)
	editor := exec.CommandContext(ctx, words[0], words[1:]...)
	editor.Stdin, editor.Stdout, editor.Stderr = d.In, d.Out, d.Err // the terminal itself
	if err := editor.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w", words[0], err)
	}
	text, err := os.ReadFile(d.file)
	if err == nil && string(text) == d.before {
		return nil, errUnchanged
	}
	return text, err
}

// open writes the text of s to a file for the editor.
func (d *sourceDraft) open(s config.Source) error {
	text, err := config.SourceText(s)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "toolroom-edit-")
	if err != nil {
		return err
	}
	d.file, d.before = filepath.Join(folder, d.name+".yaml"), text
	return os.WriteFile(d.file, []byte(text), 0o600)
}

// changed reports whether the person has changed the text in the file.
func (d *sourceDraft) changed() bool {
	text, err := os.ReadFile(d.file)
	return err == nil && string(text) != d.before
}

// editAgain shows err, which the edited text has caused, and asks whether to correct the text in
// the editor.
func (d *sourceDraft) editAgain(ctx context.Context, err error) bool {
	if err == nil || errors.Is(err, errUnchanged) || !d.changed() || !d.screen.interactive() {
		return false
	}
	d.screen.fail(err.Error(), "")
	answer, failed := d.screen.ask(ctx, "Edit again? [Y/n]")
	return failed == nil && slices.Contains([]string{"", "y", "yes"}, strings.ToLower(answer))
}

// close removes the draft. If err is that of an edited text, it keeps the file and says where
// it is. close returns err.
func (d *sourceDraft) close(err error) error {
	switch {
	case d.file == "":
	case err != nil && d.changed():
		d.screen.say("Your text is kept in %s. When it is correct: toolroom sources edit %s --from %s", d.file, d.name, d.file)
	default:
		err = errors.Join(err, os.RemoveAll(filepath.Dir(d.file)))
	}
	return err
}

// errUnchanged means that a person closed the editor without a change.
var errUnchanged = errors.New("nothing was changed")

// sourcesSwitchCommand returns the command enable or disable.
func (a *cli) sourcesSwitchCommand(verb string, disabled bool) *cobra.Command {
	short := "Enable a disabled source"
	if disabled {
		short = "Disable a source, but keep it in the config"
	}
	return &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  toolroom sources " + verb + " filesystem",
		Args:    arguments(1, 1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.configuredSources(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			file, err := a.editable()
			if err != nil {
				return err
			}
			err = config.ChangeSource(file, args[0], func(s config.Source) (config.Source, error) {
				s.Disabled = disabled
				return s, nil
			}, nil, a.keepTrust(file))
			if err := a.record(c.Context(), "sources."+verb, changeArguments{Name: args[0]}, err); err != nil {
				return err
			}
			return a.screen.printf("%sd source %q in %s\n", verb, args[0], file)
		},
	}
}

// configuredSources returns the names of all sources of the config, also of disabled ones.
func (a *cli) configuredSources() []string {
	file, err := a.editable()
	if err != nil {
		return nil
	}
	c, err := config.Load(file)
	if err != nil {
		return nil
	}
	var names []string
	for name := range c.Sources {
		names = append(names, name)
	}
	return names
}

func (a *cli) sourcesRestartCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restart NAME",
		Short: "Restart a source of the running server",
		Long: `Restart a source of the running server: its program, its connection and its list of
tools. Calls that are running end first.`,
		Example:           "  toolroom sources restart filesystem",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if a.shared == nil {
				return a.noServerError()
			}
			if err := r.RestartSource(args[0]); err != nil {
				return err
			}
			test, err := a.testSource(ctx, r, args[0])
			if err != nil {
				return err
			}
			if test.Error != "" {
				a.screen.fail(test.Name+" does not work: "+test.Error, testHint(test.Status))
				return exitCode(toolroom.CodeUpstreamUnavailable.Info().Exit)
			}
			return a.screen.printf("%s was restarted: %s in %s\n", test.Name, count(test.Tools, "tool"), formatDuration(test.Took))
		}),
	}
}

func (a *cli) sourcesLogsCommand() *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show the stderr of a source's program",
		Long: `Show the last lines that a source's program, in the running server, has written to
stderr. If the source does not work, show why.`,
		Example:           "  toolroom sources logs filesystem --follow",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if a.shared == nil {
				return a.noServerError()
			}
			return a.sourceLogs(ctx, r, args[0], follow)
		}),
	}
	c.Flags().BoolVar(&follow, "follow", false, "keep printing new lines, until Ctrl-C")
	return c
}

func (a *cli) sourceLogs(ctx context.Context, r *app.App, name string, follow bool) error {
	shown, state := "", ""
	for {
		s, ok := findSource(r, name)
		if !ok {
			return r.SourceNotFound(name)
		}
		text := s.Output
		if fresh := newOutput(shown, text); fresh != "" {
			if err := a.screen.review(fresh); err != nil {
				return err
			}
		}
		if now := strings.TrimSpace(s.State + ": " + s.Error); s.Error != "" && now != state {
			a.screen.say("%s: %s", name, now)
			state = now
		}
		shown = text
		if !follow {
			switch {
			case text != "":
			case s.Sandbox == "":
				a.screen.say("%s has no output: it runs no program on this machine", name)
			default:
				a.screen.say("%s has no output: its program has written nothing to stderr, or has not been started by this server", name)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPause):
		}
	}
}

func findSource(r *app.App, name string) (source.Status, bool) {
	for _, s := range r.Sources() {
		if s.Name == name {
			return s, true
		}
	}
	return source.Status{}, false
}

// newOutput returns the part of now that follows shown. Both are the end of one output, of which
// only the newest part is kept.
func newOutput(shown, now string) string {
	for start := range len(shown) {
		if rest, ok := strings.CutPrefix(now, shown[start:]); ok {
			return rest
		}
	}
	return now
}

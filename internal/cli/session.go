package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/session"
)

func (a *cli) sessionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "session",
		Short: "Manage code sessions",
		Long: `Manage code sessions. Programs in one session share variables: toolroom exec
--session NAME. A session that is not used expires.`,
		Example: `  toolroom exec -l js --session work 'const list = [1, 2, 3]'
  toolroom exec -l js --session work 'list.length'
  toolroom session list`,
	}
	requireSubcommand(c)
	c.AddCommand(a.sessionListCommand(), a.sessionForkCommand(), a.sessionExportCommand(), a.sessionImportCommand(), a.sessionDeleteCommand())
	return c
}

func (a *cli) sessionListCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:     "list",
		Short:   "List your sessions",
		Example: "  toolroom session list --json",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(_ context.Context, r *app.App, _ []string) error {
			list, err := r.Parts().Sessions.List(operator().Key())
			if err == nil {
				list, err = pageOf(a, &p, list, func(i session.Info) string { return i.ID })
			}
			if err != nil {
				return err
			}
			return showList(a, list, "There are no sessions.", []string{"ID", "LANGUAGE", "ENGINE", "SIZE", "RUNS", "USED", "KEPT UNTIL"}, func(one session.Info) []string {
				return []string{one.ID, one.Language, one.Engine, formatSize(one.Bytes), fmt.Sprint(one.Runs), formatTime(one.Used), formatTime(one.Expires)}
			})
		}),
	}
	p.flags(c, 100)
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) sessionForkCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "fork ID NEW",
		Short:             "Copy a session",
		Example:           "  toolroom session fork work attempt",
		Args:              arguments(2, 2),
		ValidArgsFunction: a.complete(sessionCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			from, err := sessionID(r, args[0])
			if err != nil {
				return err
			}
			info, err := r.Parts().Sessions.Fork(ctx, operator().Key(), from, args[1])
			if err != nil {
				return err
			}
			return show(a, info, a.printCreatedSession)
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printCreatedSession(info session.Info) error {
	return a.screen.printf("created session %s: toolroom exec --session %s\n", info.ID, info.ID)
}

func (a *cli) sessionExportCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "export ID FILE",
		Short: "Write a session to a file (- is stdout)",
		Long: `Write a session to a file. toolroom session import reads it on any machine with the
same version. The file holds everything in the session's variables, including
secrets.`,
		Example:           "  toolroom session export work work.session",
		Args:              arguments(2, 2),
		ValidArgsFunction: a.complete(sessionCandidates),
		RunE: a.withState(func(ctx context.Context, r *app.App, args []string) error {
			id, err := sessionID(r, args[0])
			if err != nil {
				return err
			}
			var file bytes.Buffer // so that no file is created if the session does not exist
			if err := r.Parts().Sessions.Export(operator().Key(), id, &file); err != nil {
				return err
			}
			if args[1] == "-" {
				_, err := file.WriteTo(a.screen.stream())
				return err
			}
			if err := saveTo(ctx, &file, a.typedPath(args[1]), 0o600, force); err != nil {
				return err
			}
			return a.screen.printf("wrote %s to %s\n", id, args[1])
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return c
}

func (a *cli) sessionImportCommand() *cobra.Command {
	var as string
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Import an exported session (- is stdin)",
		Long: `Import a session that toolroom session export wrote. A session contains code: the
next program in the session runs it, with access to your tools.`,
		Example: `  toolroom session import work.session
  toolroom session import work.session --as attempt`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			from := a.In
			if args[0] != "-" {
				f, err := os.Open(a.typedPath(args[0]))
				if err != nil {
					return usage("", "%s", err)
				}
				defer f.Close()
				from = f
			}
			info, err := r.Parts().Sessions.Import(ctx, operator().Key(), as, from)
			if err != nil {
				return err
			}
			return show(a, info, a.printCreatedSession)
		}),
	}
	c.Flags().StringVar(&as, "as", "", "import under this name")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) sessionDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "delete ID",
		SuggestFor:        removalWords,
		Aliases:           []string{"rm"},
		Short:             "Delete a session",
		Example:           "  toolroom session delete work",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sessionCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			// A person has chosen the name, so its beginning may be meant as another name.
			err := r.Parts().Sessions.Delete(ctx, operator().Key(), args[0])
			if toolroom.CodeOf(err) == toolroom.CodeNotFound {
				if id, ambiguous := sessionID(r, args[0]); ambiguous == nil && id != args[0] {
					return toolroom.Errorf(toolroom.CodeNotFound, "session %s not found", args[0]).WithHint("give its whole name: toolroom session delete %s", id)
				}
			}
			if err != nil {
				return err
			}
			return a.screen.printf("deleted %s\n", args[0])
		}),
	}
}

func sessionCandidates(_ context.Context, r *app.App) []string {
	list, err := r.Parts().Sessions.List(operator().Key())
	if err != nil {
		return nil
	}
	return textsOf(list, func(one session.Info) string {
		return cobra.CompletionWithDesc(one.ID, one.Language+" "+formatSize(one.Bytes))
	})
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

func (a *cli) artifactCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "artifact",
		Short: "Read stored results and files",
		Example: `  toolroom artifact list
  toolroom artifact read HANDLE --grep error`,
	}
	requireSubcommand(c)
	c.AddCommand(a.artifactListCommand(), a.artifactShowCommand(), a.artifactReadCommand(), a.artifactSaveCommand(), a.artifactDeleteCommand())
	return c
}

func (a *cli) artifactListCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:     "list",
		Short:   "List artifacts",
		Example: "  toolroom artifact list --json",
		Args:    arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			list, err := r.Parts().Artifacts.List(ctx, operator().Key())
			if err == nil {
				list, err = pageOf(a, &p, list, func(one toolroom.Artifact) string { return one.Handle })
			}
			if err != nil {
				return err
			}
			return showList(a, list, "There are no artifacts.", []string{"HANDLE", "SIZE", "TYPE", "KEPT UNTIL", "NAME"}, func(one toolroom.Artifact) []string {
				return []string{one.Handle, formatSize(one.Size), one.MIMEType, formatTime(one.Expires), one.Name}
			})
		}),
	}
	p.flags(c, 100)
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) artifactShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "show HANDLE",
		Short:             "Show the details of an artifact",
		Example:           "  toolroom artifact show HANDLE",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(artifactCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			handle, err := artifactID(ctx, r, args[0])
			if err != nil {
				return err
			}
			one, err := r.Parts().Artifacts.Stat(ctx, operator().Key(), handle)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(one)
			}
			return a.screen.fields(
				"handle", one.Handle,
				"name", one.Name,
				"type", one.MIMEType,
				"size", fmt.Sprintf("%d bytes", one.Size),
				"kept until", formatTime(one.Expires),
				"read", "toolroom artifact read "+one.Handle,
			)
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) artifactReadCommand() *cobra.Command {
	var o artifact.ReadOptions
	c := &cobra.Command{
		Use:   "read HANDLE",
		Short: "Print a page of an artifact's text",
		Example: `  toolroom artifact read HANDLE --offset 51200
  toolroom artifact read HANDLE --grep 'error|warning' --context 2
  toolroom artifact read HANDLE --json-path '$.items[*].name'`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(artifactCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			handle, err := artifactID(ctx, r, args[0])
			if err != nil {
				return err
			}
			page, err := r.Parts().Artifacts.Read(ctx, operator().Key(), handle, o)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(page)
			}
			if err := a.screen.text(page.Text); err != nil {
				return err
			}
			if page.Next > 0 {
				a.screen.say("more: toolroom artifact read %s --offset %d%s", handle, page.Next, selectionFlags(o))
			}
			return nil
		}),
	}
	f := c.Flags()
	f.Int64Var(&o.Offset, "offset", 0, "offset in bytes")
	f.Int64Var(&o.Limit, "limit", artifact.DefaultPage, "maximum number of bytes to print")
	f.StringVar(&o.Grep, "grep", "", "only lines that match this regular expression")
	f.IntVar(&o.Context, "context", 0, "with --grep: lines around each match")
	f.StringVar(&o.JSONPath, "json-path", "", "only the parts that this JSONPath selects")
	a.jsonFlag(c, "print JSON")
	return c
}

// selectionFlags returns the flags that a person must repeat to read the next part.
func selectionFlags(o artifact.ReadOptions) string {
	switch {
	case o.Grep != "":
		return fmt.Sprintf(" --grep %q --context %d", o.Grep, o.Context)
	case o.JSONPath != "":
		return fmt.Sprintf(" --json-path %q", o.JSONPath)
	}
	return ""
}

func (a *cli) artifactSaveCommand() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use:   "save HANDLE FILE",
		Short: "Write an artifact's bytes to a file (- is stdout)",
		Example: `  toolroom artifact save HANDLE log.txt
  toolroom artifact save HANDLE - | less`,
		Args: arguments(2, 2),
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.complete(artifactCandidates)(c, args, typed)
		},
		RunE: a.withState(func(ctx context.Context, r *app.App, args []string) error {
			handle, err := artifactID(ctx, r, args[0])
			if err != nil {
				return err
			}
			from, one, err := r.Parts().Artifacts.Open(ctx, operator().Key(), handle)
			if err != nil {
				return err
			}
			defer from.Close()
			if args[1] == "-" {
				_, err := io.Copy(a.screen.stream(), from)
				return err
			}
			if err := saveTo(ctx, from, a.typedPath(args[1]), 0o644, force); err != nil {
				return err
			}
			return a.screen.printf("wrote %s to %s\n", count(one.Size, "byte"), args[1])
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return c
}

// saveTo writes a file, all of it or nothing. It replaces an existing file only with force.
func saveTo(ctx context.Context, from io.Reader, path string, perm os.FileMode, force bool) (err error) {
	if !force {
		reserved, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, os.ErrExist) {
			return toolroom.Errorf(toolroom.CodeConflict, "%s already exists", path).WithHint("replace it with --force")
		}
		if err != nil {
			return err
		}
		if err := reserved.Close(); err != nil {
			return err
		}
	}
	err = atomicfile.WriteFrom(path, readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return from.Read(b)
	}), perm)
	if err != nil && !force {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func (a *cli) artifactDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "delete HANDLE",
		SuggestFor:        removalWords,
		Aliases:           []string{"rm"},
		Short:             "Delete an artifact",
		Example:           "  toolroom artifact delete HANDLE",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(artifactCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			handle, err := artifactID(ctx, r, args[0])
			if err != nil {
				return err
			}
			if err := r.Parts().Artifacts.Delete(ctx, operator().Key(), handle); err != nil {
				return err
			}
			return a.screen.printf("deleted %s\n", handle)
		}),
	}
}

func artifactCandidates(ctx context.Context, r *app.App) []string {
	list, err := r.Parts().Artifacts.List(ctx, operator().Key())
	if err != nil {
		return nil
	}
	return textsOf(list, func(one toolroom.Artifact) string {
		return cobra.CompletionWithDesc(one.Handle, one.Name+" "+formatSize(one.Size))
	})
}

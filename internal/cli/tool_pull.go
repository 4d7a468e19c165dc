package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) toolPullCommand() *cobra.Command {
	var environment string
	var force bool
	c := &cobra.Command{
		Use:   "pull FOLDER [TOOL…]",
		Short: "Write the code of tools to files",
		Long: `Write the code of tools to files, each in a folder NAMESPACE/NAME: the newest version, or
the one that --env serves. If a file has changes that no sync has stored, pull names it and
writes nothing, unless --force is given.`,
		Example: "  toolroom tool pull tools --env prod",
		Args:    arguments(1, -1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s := r.Parts().Releases
			list, err := s.List(ctx, release.Filter{})
			if err != nil {
				return err
			}
			for _, spelled := range args[1:] {
				if _, _, err := s.Find(ctx, spelled); err != nil {
					return err
				}
			}
			top, err := openFolder(a.argumentPath(args[0]))
			if err != nil {
				return err
			}
			defer top.Close()
			known := readPullState(top)
			var pulled []*pulledTool
			var edited []string
			for _, t := range list {
				if wanted, err := selectsTool(ctx, s, t.Tool, args[1:]); err != nil || !wanted {
					if err != nil {
						return err
					}
					continue
				}
				number := t.Newest
				if environment != "" {
					if number = t.Released[environment]; number == 0 {
						continue
					}
				}
				p := &pulledTool{tool: t.Tool, number: number, newest: t.Newest, top: top, folder: toolFolder(t.Tool)}
				if err := p.read(ctx, s, known); err != nil {
					return err
				}
				pulled = append(pulled, p)
				edited = append(edited, p.edited...)
			}
			if len(edited) > 0 && !force {
				return toolroom.Errorf(toolroom.CodeConflict, "nothing was written: these files have changes that are not stored: %s", strings.Join(edited, ", ")).
					WithHint("store your changes first: toolroom tool sync %[1]s; or overwrite them: toolroom tool pull --force %[1]s", cmp.Or(args[0], "''"))
			}
			for _, p := range pulled {
				if err := p.write(); err != nil {
					return err
				}
				known.Versions[p.tool] = p.newest
				if err := known.noteCases(top, p.tool); err != nil {
					return err
				}
				a.screen.say("%s version %d: %s", p.tool, p.number, map[bool]string{true: "written", false: "no change"}[len(p.changes) > 0])
			}
			return known.write(top)
		}),
	}
	c.Flags().StringVar(&environment, "env", "", "write the versions that this environment serves")
	c.Flags().BoolVar(&force, "force", false, "overwrite files that have changes which no sync has stored")
	return c
}

// selectsTool reports whether one of the spellings, or none at all, names the tool.
func selectsTool(ctx context.Context, s *release.Service, tool string, spellings []string) (bool, error) {
	if len(spellings) == 0 {
		return true, nil
	}
	for _, spelled := range spellings {
		found, _, err := s.Find(ctx, spelled)
		if err != nil || found == tool {
			return err == nil, err
		}
	}
	return false, nil
}

// openFolder opens a folder of tools, and creates it if there is none.
func openFolder(path string) (*os.Root, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(path)
}

// toolFolder returns the folder of a tool in the folder of a pull.
func toolFolder(tool string) string { return filepath.FromSlash(strings.ReplaceAll(tool, ":", "/")) }

// pulledTool is what a pull does for one tool.
type pulledTool struct {
	tool           string
	number, newest int
	top            *os.Root
	folder         string // in top

	// changes are the files that differ. edited are those of them with the user's changes, which
	// are stored nowhere else.
	changes []fileChange
	edited  []string
}

// fileChange is a file in the folder of a pull, and its new content. If the content is nil, the file is removed.
type fileChange struct {
	path    string
	content []byte
}

// read finds the files that differ from the version and from the saved cases.
func (p *pulledTool) read(ctx context.Context, s *release.Service, known *pullState) error {
	v, err := s.Pick(ctx, p.tool, p.number)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(v.Spec.Files)) {
		if !filepath.IsLocal(filepath.FromSlash(name)) { // such as a\..\..\b on Windows
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has the file %q, which is outside its folder", v.Tool, name)
		}
		content, err := release.UnpackFile(name, v.Spec.Files[name])
		if err != nil {
			return err
		}
		stored := func(before []byte) (bool, error) { return hasVersion(ctx, s, p.tool, name, before) }
		if err := p.compare(filepath.FromSlash(name), content, stored); err != nil {
			return err
		}
	}
	cases, err := s.Store.Cases(ctx, p.tool)
	if err != nil {
		return err
	}
	var text []byte
	if len(cases) > 0 {
		if text, err = release.WriteCases(cases); err != nil {
			return err
		}
	}
	return p.compare(release.CasesFile, text, func(before []byte) (bool, error) {
		if digest, seen := known.Cases[p.tool]; seen {
			return digest == digestOf(before), nil
		}
		return release.HasCases(cases, before), nil
	})
}

// compare notes a change if the file has another content. stored reports whether the file's
// present content is stored elsewhere, so that overwriting it loses nothing.
func (p *pulledTool) compare(name string, content []byte, stored func(before []byte) (bool, error)) error {
	path := filepath.Join(p.folder, name)
	before, err := readIn(p.top, path)
	there := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there == (content != nil) && bytes.Equal(before, content) {
		return nil
	}
	p.changes = append(p.changes, fileChange{path, content})
	if !there {
		return nil
	}
	ok, err := stored(before)
	if err == nil && !ok {
		p.edited = append(p.edited, filepath.Join(p.top.Name(), path))
	}
	return err
}

// hasVersion reports whether a version of the tool has this content of a file.
func hasVersion(ctx context.Context, s *release.Service, tool, name string, content []byte) (bool, error) {
	versions, err := s.Store.Versions(ctx, tool)
	if err != nil {
		return false, err
	}
	for _, v := range versions {
		packed, ok := v.Spec.Files[name]
		if !ok {
			continue
		}
		// The same module may be packed in different ways.
		if text, err := release.UnpackFile(name, packed); err == nil && bytes.Equal(text, content) {
			return true, nil
		}
	}
	return false, nil
}

// write makes the changes.
func (p *pulledTool) write() error {
	for _, c := range p.changes {
		if c.content == nil {
			if err := p.top.Remove(c.path); err != nil {
				return err
			}
			continue
		}
		if err := p.top.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
			return err
		}
		if err := p.top.WriteFile(c.path, c.content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

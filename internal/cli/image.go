package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/internal/app"
)

func (a *cli) imageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "image",
		Short:   "Build the image that programs run in",
		Example: "  toolroom image build --docker",
	}
	onlyHolds(c)
	c.AddCommand(a.imageBuildCommand())
	return c
}

// imageOptions holds the flags of image build.
type imageOptions struct {
	image.Options
	output, root string
	engines      map[string]*bool
}

func (a *cli) imageBuildCommand() *cobra.Command {
	o := imageOptions{engines: map[string]*bool{}}
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the default image from Debian packages",
		Long: `Build the default sandbox image from Debian packages: Python, node, a shell and the
guest. It needs mmdebstrap and a Debian mirror, and no registry. The build is
reproducible: the same packages produce the same bytes.`,
		Example: `  toolroom image build --docker
  toolroom image build --output image.tar && docker load -i image.tar
  toolroom image build --root /var/lib/toolroom/root`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error { return a.buildImage(ctx, r, o) }),
	}
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write the image to this file, for docker load and ctr images import")
	f.StringVar(&o.root, "root", "", "write the root file system into this folder, for gvisor and microVMs")
	for _, engine := range []string{"docker", "containerd"} {
		o.engines[engine] = f.Bool(engine, false, "load the image into "+engine)
	}
	f.StringSliceVar(&o.Packages, "package", nil, "include this Debian package")
	f.BoolVar(&o.WithoutNode, "without-node", false, "omit node: 66 MB instead of 161 MB, and no JavaScript")
	f.StringVar(&o.Suite, "suite", "", "Debian release (default bookworm)")
	f.StringVar(&o.Mirror, "mirror", "", "Debian mirror (default: the mirror of this machine's apt)")
	return c
}

// imageLoader is a driver whose engine stores images.
type imageLoader interface {
	Name() string
	// LoadImage loads the images of an archive into the engine.
	LoadImage(ctx context.Context, archive io.Reader) error
}

func (a *cli) buildImage(ctx context.Context, r *app.App, o imageOptions) error {
	loaders := a.imageLoaders(r, o)
	if o.output == "" && o.root == "" && len(loaders) == 0 {
		return usage("toolroom image build --help", "a destination is required: --docker, --containerd, --output FILE or --root FOLDER")
	}
	o.Guest, o.Log = a.Guest.Path, a.Err
	return image.Build(ctx, o.Options, func(tree *image.Tree) error {
		if o.root != "" {
			if err := tree.Unpack(o.root); err != nil {
				return err
			}
			a.screen.say("wrote the root file system to %s", o.root)
		}
		if o.output == "" && len(loaders) == 0 {
			return nil
		}
		return a.loadImage(ctx, tree, o.output, loaders)
	})
}

// loadImage writes the image to a file and loads it from there. The file is kept if it has
// a name.
func (a *cli) loadImage(ctx context.Context, tree *image.Tree, output string, loaders []imageLoader) error {
	file, err := imageFile(output)
	if err != nil {
		return err
	}
	defer file.Close()
	if output == "" {
		defer os.Remove(file.Name())
	}
	if err := tree.Write(file); err != nil {
		return err
	}
	for _, l := range loaders {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if err := l.LoadImage(ctx, file); err != nil {
			return err
		}
		a.screen.say("loaded %[2]s into %[1]s", l.Name(), image.Name)
	}
	if output != "" {
		a.screen.say("wrote %s to %s", image.Name, output)
	}
	return file.Close()
}

// imageLoaders returns the drivers whose engines get the image.
func (a *cli) imageLoaders(r *app.App, o imageOptions) []imageLoader {
	if a.Drivers == nil {
		return nil
	}
	var list []imageLoader
	for _, d := range a.Drivers(r.Config().Code.WithImages()) {
		wanted := o.engines[d.Name()]
		if l, ok := d.(imageLoader); ok && wanted != nil && *wanted {
			list = append(list, l)
		}
	}
	return list
}

func imageFile(name string) (*os.File, error) {
	if name == "" {
		return os.CreateTemp("", "toolroom-image-*.tar")
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "--output: %w", err)
	}
	return file, nil
}

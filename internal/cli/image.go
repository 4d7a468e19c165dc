package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/image"
	"github.com/toolroom/toolroom/room"
)

func (a *app) imageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "image",
		Short:   "Make the image that programs run in",
		Example: "  toolroom image build --docker",
	}
	onlyHolds(c)
	c.AddCommand(a.imageBuildCommand())
	return c
}

// imageOptions are the flags of image build.
type imageOptions struct {
	image.Options
	output, root string
	engines      map[string]*bool
}

func (a *app) imageBuildCommand() *cobra.Command {
	o := imageOptions{engines: map[string]*bool{}}
	c := &cobra.Command{
		Use:   "build",
		Short: "Build the default image from Debian packages, without a registry",
		Long: `Build the default image of sandboxes from Debian packages: Python, node, a shell
and the guest. It needs mmdebstrap and a Debian mirror, and no registry. The same packages
give the same bytes.`,
		Example: `  toolroom image build --docker
  toolroom image build --output image.tar && docker load -i image.tar
  toolroom image build --root /var/lib/toolroom/root`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, _ []string) error { return a.buildImage(ctx, r, o) }),
	}
	f := c.Flags()
	f.StringVarP(&o.output, "output", "o", "", "write the image to this file, for docker load and ctr images import")
	f.StringVar(&o.root, "root", "", "write the root file system into this folder, for gvisor and microVMs")
	for _, engine := range []string{"docker", "containerd"} {
		o.engines[engine] = f.Bool(engine, false, "load the image into "+engine)
	}
	f.StringSliceVar(&o.Packages, "package", nil, "put this Debian package in too")
	f.BoolVar(&o.WithoutNode, "without-node", false, "leave node out: 66 MB in place of 161, and no JavaScript")
	f.StringVar(&o.Suite, "suite", "", "release of Debian (bookworm)")
	f.StringVar(&o.Mirror, "mirror", "", "read Debian from here; else as the apt of this machine does")
	return c
}

// imageLoader is a driver whose engine keeps images.
type imageLoader interface {
	Name() string
	// LoadImage puts the images of an archive into the engine.
	LoadImage(ctx context.Context, archive io.Reader) error
}

func (a *app) buildImage(ctx context.Context, r *room.Room, o imageOptions) error {
	loaders := a.imageLoaders(r, o)
	if o.output == "" && o.root == "" && len(loaders) == 0 {
		return usage("toolroom image build --help", "where is the image to go? --docker, --containerd, --output FILE or --root FOLDER")
	}
	o.Guest, o.Log = a.Guest.Path, a.Err
	return image.Build(ctx, o.Options, func(tree *image.Tree) error {
		if o.root != "" {
			if err := tree.Unpack(o.root); err != nil {
				return err
			}
			a.screen.say("The root file system is in %s.", o.root)
		}
		if o.output == "" && len(loaders) == 0 {
			return nil
		}
		return a.loadImage(ctx, tree, o.output, loaders)
	})
}

// loadImage writes the image to a file, which is kept if it has a name, and
// loads it from there.
func (a *app) loadImage(ctx context.Context, tree *image.Tree, output string, loaders []imageLoader) error {
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
		a.screen.say("%s has %s.", l.Name(), image.Name)
	}
	if output != "" {
		a.screen.say("%s is in %s.", image.Name, output)
	}
	return file.Close()
}

// imageLoaders are the drivers whose engines are to get the image.
func (a *app) imageLoaders(r *room.Room, o imageOptions) []imageLoader {
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

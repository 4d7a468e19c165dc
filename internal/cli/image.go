package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
)

func (a *cli) imageCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "image",
		Short:   "Build the image that programs run in",
		Example: "  toolroom image build --docker",
	}
	requireSubcommand(c)
	c.AddCommand(a.imageBuildCommand())
	return c
}

func (a *cli) imageBuildCommand() *cobra.Command {
	var o ImageOptions
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
		RunE: func(c *cobra.Command, args []string) error {
			if o.Output == "" && o.Root == "" && !o.Docker && !o.Containerd {
				return usage("toolroom image build --help", "a destination is required: --docker, --containerd, --output FILE or --root FOLDER")
			}
			if a.Foreign == nil {
				return a.runInRunner(c.Context())
			}
			return a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
				defer a.screen.showActivity("building the image from Debian packages")()
				return a.Foreign.BuildImage(ctx, r, o, a.screen.say)
			})(c, args)
		},
	}
	f := c.Flags()
	f.StringVarP(&o.Output, "output", "o", "", "write the image to this file, for docker load and ctr images import")
	f.StringVar(&o.Root, "root", "", "write the root file system into this folder, for gvisor and microVMs")
	f.BoolVar(&o.Docker, "docker", false, "load the image into docker")
	f.BoolVar(&o.Containerd, "containerd", false, "load the image into containerd")
	f.StringSliceVar(&o.Packages, "package", nil, "include this Debian package")
	f.BoolVar(&o.WithoutNode, "without-node", false, "omit node: 66 MB instead of 161 MB, and no JavaScript")
	f.StringVar(&o.Suite, "suite", "", "Debian release (default bookworm)")
	f.StringVar(&o.Mirror, "mirror", "", "Debian mirror (default: the mirror of this machine's apt)")
	return c
}

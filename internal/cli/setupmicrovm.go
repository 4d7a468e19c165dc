package cli

import (
	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/sandbox/microvm"
)

func (a *app) setupMicroVMCommand() *cobra.Command {
	var o microvm.SetupOptions
	var verify bool
	c := &cobra.Command{
		Use:   "microvm",
		Short: "Make kernel and root file system of virtual machines",
		Long: `Makes kernel, modules and root file system of the machines in which the
runtimes microvm and firecracker run programs, from Debian's packages, with
their checksums. It needs no root, but as root it also compiles Python's library,
so that imports are faster.`,
		Example: `  toolroom setup microvm
  toolroom setup microvm --packages nodejs
  toolroom setup microvm --kernel ./vmlinux --root ./rootfs
  toolroom setup microvm --verify`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			o.Folder = microvm.Folder(a.home)
			if verify {
				if err := microvm.Verify(o.Folder); err != nil {
					return err
				}
				return a.screen.printf("the image in %s is as it was made\n", o.Folder)
			}
			o.Log = func(line string) { a.screen.say("%s", line) }
			if err := microvm.Setup(c.Context(), o); err != nil {
				return err
			}
			return a.screen.printf("made the image in %s; toolroom doctor tries it\n", o.Folder)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Kernel, "kernel", "", "package of a Debian kernel, or a vmlinux with all drivers built in (Debian's for clouds)")
	f.StringVar(&o.Root, "root", "", "folder with a root file system (a small one with Python, made by mmdebstrap)")
	f.StringVar(&o.Suite, "suite", "bookworm", "release of Debian for the root file system")
	f.StringSliceVar(&o.Packages, "packages", nil, "further packages in the root file system")
	f.BoolVar(&verify, "verify", false, "compare the image that is there with its checksums")
	return c
}

package cli

import "github.com/spf13/cobra"

func (a *cli) setupMicroVMCommand() *cobra.Command {
	var o MicroVMOptions
	c := &cobra.Command{
		Use:   "microvm",
		Short: "Build the kernel and root file system of microVMs",
		Long: `Build the kernel, modules and root file system of the virtual machines that the
runtimes microvm and firecracker use, from Debian packages with verified checksums.
Root is not required; as root it also compiles Python's library, for faster imports.`,
		Example: `  toolroom setup microvm
  toolroom setup microvm --packages nodejs
  toolroom setup microvm --kernel ./vmlinux --root ./rootfs
  toolroom setup microvm --verify`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Foreign == nil {
				return a.runInRunner(c.Context())
			}
			what := "building the kernel and root file system of microVMs"
			if o.Verify {
				what = "verifying the image of microVMs"
			}
			done := a.screen.showActivity(what)
			folder, err := a.Foreign.SetUpMicroVM(c.Context(), a.home, o, a.screen.say)
			done()
			if err != nil {
				return err
			}
			if o.Verify {
				return a.screen.printf("OK: the image in %s is unchanged\n", folder)
			}
			return a.screen.printf("built the image in %s; test it with toolroom doctor\n", folder)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Kernel, "kernel", "", "Debian kernel package, or a vmlinux with built-in drivers (default: Debian's cloud kernel)")
	f.StringVar(&o.Root, "root", "", "root file system folder (default: a small one with Python, built by mmdebstrap)")
	f.StringVar(&o.Suite, "suite", "bookworm", "Debian release of the root file system")
	f.StringSliceVar(&o.Packages, "packages", nil, "additional packages in the root file system")
	f.BoolVar(&o.Verify, "verify", false, "verify the checksums of the existing image")
	return c
}

package drivers

import (
	"context"
	"io"
	"os"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/microvm"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
)

// Commands runs the commands that toolroom hands over.
type Commands struct {
	// Guest is the path of the guest binary for images.
	Guest string
	// Getenv returns environment variables.
	Getenv func(string) string
	// Err receives the output of mmdebstrap.
	Err io.Writer
}

// SetUpMicroVM builds or checks the image of virtual machines.
func (c Commands) SetUpMicroVM(ctx context.Context, home string, o cli.MicroVMOptions, say func(string, ...any)) (string, error) {
	folder := microvm.Folder(home)
	if o.Verify {
		return folder, microvm.Verify(folder)
	}
	return folder, microvm.Setup(ctx, microvm.SetupOptions{
		Folder: folder, Kernel: o.Kernel, Root: o.Root, Suite: o.Suite, Packages: o.Packages, Log: func(line string) { say("%s", line) },
	})
}

// imageLoader is a driver whose engine stores images.
type imageLoader interface {
	Name() string
	// LoadImage loads the images of an archive into the engine.
	LoadImage(ctx context.Context, archive io.Reader) error
}

// BuildImage builds the default image.
func (c Commands) BuildImage(ctx context.Context, r *app.App, o cli.ImageOptions, say func(string, ...any)) error {
	runtimes := r.Config().Code.WithImages()
	var loaders []imageLoader
	if o.Docker {
		loaders = append(loaders, newDocker(runtimes.Docker, c.Getenv))
	}
	if o.Containerd {
		l := containerdLoader(runtimes.Containerd)
		if l == nil {
			return toolroom.Errorf(toolroom.CodeUnsupported, "containerd exists only on Linux")
		}
		loaders = append(loaders, l)
	}
	options := image.Options{Guest: c.Guest, Log: c.Err, Packages: o.Packages, WithoutNode: o.WithoutNode, Suite: o.Suite, Mirror: o.Mirror}
	return image.Build(ctx, options, func(tree *image.Tree) error {
		if o.Root != "" {
			if err := tree.Unpack(o.Root); err != nil {
				return err
			}
			say("wrote the root file system to %s", o.Root)
		}
		if o.Output == "" && len(loaders) == 0 {
			return nil
		}
		return loadImage(ctx, tree, o.Output, loaders, say)
	})
}

// loadImage writes the image to a file and loads it from there. The file is kept if it has
// a name.
func loadImage(ctx context.Context, tree *image.Tree, output string, loaders []imageLoader, say func(string, ...any)) error {
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
		say("loaded %[2]s into %[1]s", l.Name(), image.Name)
	}
	if output != "" {
		say("wrote %s to %s", image.Name, output)
	}
	return file.Close()
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

package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// Foreign runs the parts of commands that need the code of foreign engines. That code is linked
// into toolroom-runner only, so toolroom runs such commands there. say tells the user about a
// step.
type Foreign interface {
	// BuildImage builds the default image of sandboxes and puts it where o says.
	BuildImage(ctx context.Context, r *app.App, o ImageOptions, say func(format string, args ...any)) error
	// SetUpMicroVM builds the image of virtual machines in a home and returns its folder. If
	// o.Verify is set, it checks the existing one instead.
	SetUpMicroVM(ctx context.Context, home string, o MicroVMOptions, say func(format string, args ...any)) (folder string, err error)
}

// ImageOptions are the flags of image build.
type ImageOptions struct {
	Output, Root       string
	Docker, Containerd bool
	Packages           []string
	WithoutNode        bool
	Suite, Mirror      string
}

// MicroVMOptions are the flags of setup microvm.
type MicroVMOptions struct {
	Kernel, Root, Suite string
	Packages            []string
	Verify              bool
}

// runInRunner runs this command line in toolroom-runner instead of this process.
func (a *cli) runInRunner(ctx context.Context) error {
	if a.Exec == nil {
		return toolroom.Errorf(toolroom.CodeUnsupported, "this program cannot start %s for the command", app.RunnerName).
			WithCLIHint("use the program toolroom")
	}
	r, err := a.openRoom(ctx, slog.LevelWarn)
	if err != nil {
		return err
	}
	path, err := r.RunnerPath()
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	code, err := a.Exec(ctx, path, a.args)
	if err == nil && code != 0 {
		return exitCode(code)
	}
	return err
}

package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/source/function"
	"github.com/toolroom/toolroom/sandbox"
)

// builder returns the builder of the packages that the config allows to be built.
func (a *App) builder() function.Builder {
	return function.Builder{Allowed: a.Config().Releases.Packages.Build, Run: a.runBuild}
}

// runBuild runs a build in a sandbox of this machine, without a network. It returns an
// error if this machine has no sandbox: it never builds without one.
func (a *App) runBuild(ctx context.Context, b function.Build, out io.Writer) error {
	what := "the build of " + b.Name
	e, _ := a.hostedEngine(config.RuntimeProcess)
	if e == nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s needs the sandbox %s, which is not there: nothing was built", what, config.RuntimeProcess).
			WithCLIHint("toolroom doctor shows what is missing and how to get it")
	}
	c := a.Config().Releases.Packages.BuildLimits
	limits, defaulted := config.Sandbox{Memory: c.Memory, Disk: c.Disk, PIDs: c.PIDs}.Limits()
	job := engine.Job{
		Run: "build", Owner: "functions", Layer: engine.Layer{Path: b.Layer},
		Sandbox: sandbox.Spec{Profile: sandbox.Standard, Limits: limits, Defaulted: defaulted, Guest: a.o.Guest.Path, Args: a.o.Guest.Args},
		Program: bridge.Program{
			Language: "command", Name: b.Command[0], Command: b.Command, Attached: true, Env: b.Env,
			Limits: bridge.Limits{Wall: max(c.Timeout.Milliseconds(), 1) /* 0 is none */, Output: math.MaxInt64 / 2, Bytes: math.MaxInt64 / 2, Memory: limits.Memory},
		},
	}
	var said proc.Tail
	p, stdin, stdout, err := attachedProgram{who: what, job: job, stderr: &said, log: a.log}.start(ctx, e)
	if err != nil {
		return fmt.Errorf("%s: nothing was built: %w", what, err)
	}
	defer context.AfterFunc(ctx, p.Kill)()
	go func() {
		_, _ = io.Copy(stdin, b.Input)
		stdin.Close()
	}()
	n, failed := io.Copy(out, io.LimitReader(stdout, b.MaxOutput+1))
	if failed != nil || n > b.MaxOutput {
		p.Kill()
	}
	<-p.Done()
	var exit *proc.Exit
	switch err := p.Err(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case n > b.MaxOutput:
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%s made more than %d MiB: nothing was used", what, b.MaxOutput>>20)
	case failed != nil:
		return fmt.Errorf("%s: %w", what, failed)
	case err == nil:
		return nil
	case toolroom.CodeOf(err) == toolroom.CodeTimeout:
		return toolroom.Errorf(toolroom.CodeTimeout, "%s did not end within %v: nothing was used", what, c.Timeout).
			WithHint("allow it more: releases.packages.build_limits.timeout")
	case errors.As(err, &exit) || toolroom.CodeOf(err) == toolroom.CodeInternal:
		return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s failed in its sandbox, which has no network and none of your files: %s", what, cmp.Or(outputTail(said.String()), err.Error())).
			WithHint("choose another version, or build it elsewhere and push with --wheels or --tarballs FOLDER")
	default:
		return fmt.Errorf("%s: nothing was used: %w", what, err)
	}
}

// outputTail returns the end of the output of a build as one line.
func outputTail(said string) string {
	const most = 600
	said = strings.Join(strings.Fields(said), " ")
	if len(said) > most {
		said = "…" + strings.ToValidUTF8(said[len(said)-most:], "")
	}
	return said
}

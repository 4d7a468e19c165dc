package hosted_test

import (
	"os/exec"
	"testing"

	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

func BenchmarkInProcessSandbox(b *testing.B) {
	self := selfWith(b, "/usr/bin/python3", "/usr/bin/node")
	enginetest.Bench(b, hosted.New(process.New(self, []string{guest.MainArg})), enginetest.Options{
		Languages: []string{"python", "javascript"}, Sandbox: sandbox.Spec{Guest: self, Args: []string{guest.MainArg}},
	})
}

// The time of a run if each starts its own interpreter.
func BenchmarkOfNothing(b *testing.B) {
	for name, command := range map[string][]string{
		"node -e":    {"node", "-e", "1"},
		"python3 -c": {"/usr/bin/python3", "-c", "1"},
		"bwrap python3": {
			"bwrap", "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--proc", "/proc", "--dev", "/dev", "/usr/bin/python3", "-c", "1",
		},
	} {
		b.Run(name, func(b *testing.B) {
			selfWith(b, command[0])
			enginetest.Measure(b, func() error { return exec.Command(command[0], command[1:]...).Run() })
		})
	}
}

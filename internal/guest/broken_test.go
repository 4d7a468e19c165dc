//go:build unix

package guest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

func TestABrokenStreamIsNotToldAsACancel(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(fmt.Errorf("%w: text is not UTF-8", errBroken))
	f := new(run).crashFailure(ctx, "python", cmd.ProcessState)
	if f.Kind != bridge.FailProgram || !strings.Contains(f.Message, "text is not UTF-8") {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(nil)
	if f := new(run).crashFailure(ctx, "python", cmd.ProcessState); f.Kind != bridge.FailCancelled {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
}

func TestTheLimitThatAKilledProgramExceededIsNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ script, limit string }{
		{`ulimit -St 1; while :; do :; done`, "cpu"},
		{`trap '' XCPU; ulimit -St 1; ulimit -Ht 2; while :; do :; done`, "cpu"},
		{`kill -9 $$`, "memory"},
	} {
		cmd := exec.Command("sh", "-c", c.script)
		_ = cmd.Run()
		r := &run{program: bridge.Program{Limits: bridge.Limits{CPU: 1000}}}
		if f := r.crashFailure(t.Context(), "sh", cmd.ProcessState); f.Limit != c.limit {
			t.Errorf("%s: the limit is %q: %s (%s)", c.script, f.Limit, f.Message, cmd.ProcessState)
		}
	}
}

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
	f := crash(ctx, "python", cmd.ProcessState)
	if f.Kind != bridge.FailProgram || !strings.Contains(f.Message, "text is not UTF-8") {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(nil)
	if f := crash(ctx, "python", cmd.ProcessState); f.Kind != bridge.FailCancelled {
		t.Errorf("got %s: %s", f.Kind, f.Message)
	}
}

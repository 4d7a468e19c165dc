package cli

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Cobra ignores errors of writing a help text.
func TestAHelpTextThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"audit"}, {"audit", "--help"}} {
		var errOut strings.Builder
		p := Program{In: strings.NewReader(""), Out: fullDisk{}, Err: &errOut, Home: t.TempDir()}
		if code := p.Run(t.Context(), args); code == toolroom.ExitOK || !strings.Contains(errOut.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, errOut.String())
		}
		p.Out = io.Discard
		if code := p.Run(t.Context(), args); code != toolroom.ExitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

package cli

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom/source"
)

func TestHintOfASourceThatFailsInASandboxTellsOfFolders(t *testing.T) {
	t.Parallel()
	for sandbox, told := range map[string]bool{"process, standard": true, "none": false, "": false} {
		hint := testHint(source.Status{Name: "files", Sandbox: sandbox})
		if strings.Contains(hint, "--read or --write, and in its arguments by full paths") != told {
			t.Errorf("%q: %s", sandbox, hint)
		}
		if strings.Contains(hint, "show its output") != (sandbox != "") {
			t.Errorf("%q, which has a program if it is not empty: %s", sandbox, hint)
		}
	}
}

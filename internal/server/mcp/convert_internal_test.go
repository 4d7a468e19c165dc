package mcp

import (
	"testing"

	"github.com/toolroom/toolroom"
)

// Clients show models the results of tools, and seldom the errors of the protocol.
func TestWhatAToolDoesNotFindIsItsResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code  toolroom.Code
		phase toolroom.Phase
		want  bool
	}{
		{toolroom.CodeNotFound, toolroom.PhaseExecute, false},
		{toolroom.CodeNotFound, toolroom.PhaseResolve, true},
		{toolroom.CodeToolNotFound, toolroom.PhaseResolve, true},
		{toolroom.CodeExecutionFailed, toolroom.PhaseExecute, false},
	} {
		if got := isProtocolError(&toolroom.Error{Code: c.code, Phase: c.phase}, "2025-11-25"); got != c.want {
			t.Errorf("%s in %s: %t", c.code, c.phase, got)
		}
	}
}

package monty_test

import (
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
)

// Another engine runs these programs from their beginning, so no tool may be called here.
func TestSyntaxThatMontyLacksIsRefusedBeforeAnyToolIsCalled(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	for _, source := range []string{
		"class A(Exception): pass",
		"class A:\n    @property\n    def x(self): pass",
		"def f():\n    yield 1",
		"f = lambda: (yield)",
		"x = [1]\ndel x[0]",
		"async def f():\n    async with x: pass",
		"async def f():\n    return [x async for x in y]",
		"try: pass\nexcept* ValueError: pass",
		"type X = int",
		"from math import *",
		"x = 1\nt'{x}'",
	} {
		call := "tools.github.create_issue(title='a')\n"
		if strings.Contains(source, "async") {
			call = "await " + call
		}
		result, calls := runIssues(t, e, call+source)
		if f := result.Outcome.Failure; f == nil || f.Kind != bridge.FailUnsupported || calls != 0 || f.Line < 2 {
			t.Errorf("%s\nended with %v after %d calls, want it refused with its line and without a call", source, f, calls)
		}
	}
	result, calls := runIssues(t, e, "tools.github.create_issue(title='a')\nfrom . import x")
	if f := result.Outcome.Failure; f == nil || f.Type != "ImportError" {
		t.Errorf("a relative import ended with %v after %d calls, want ImportError as in Python", f, calls)
	}
}

package py_test

import (
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

func TestAttacksFromInsideFail(t *testing.T) {
	t.Parallel()
	enginetest.Attack(t, suite)
}

func TestBadCodeEndsAsExpectedAndHarmsNoOtherRun(t *testing.T) {
	t.Parallel()
	enginetest.Bad(t, suite)
}

func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	enginetest.Leak(t, suite)
}

// suite returns the engine's options for the suites. Its memory limit includes the
// interpreter.
var suite = enginetest.Options{
	New: func(t *testing.T) engine.Engine { return open(t) }, Bare: true, Memory: 128 << 20,
	Bad: []enginetest.BadProgram{
		{Key: "an endless sum in one operation", Source: script("import itertools\nsum(itertools.count())"), Ends: string(toolroom.CodeTimeout)},
		{Key: "a read of the bridge itself", Source: script("import os\nwhile True: os.read(0, 1)"), Ends: string(toolroom.CodeTimeout)},
		{Key: "the end of the interpreter", Source: script("import os\nos._exit(3)"), Ends: "program", Says: "exit code 3"},
		{Key: "an abort", Source: script("import os\nos.abort()"), Ends: "program"},
		{Key: "garbage on the bridge", Source: script("import os\nos.write(0, b'\\xff' * 64)"), Ends: "program"},
	},
}

func script(source string) map[string]string { return map[string]string{"python": source} }

package code

import (
	"strings"
	"testing"
	"time"
)

func TestAStatementThatNamesWhatRunGivesIsTheToolexecForm(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]int{
		`issue := run("github:create_issue", {title: "Bug fix"})`: 1,
		"x = 1\n  b := run('a:b')":                                2,
		"# it's\nb := run('a:b')":                                 2,
		"'''\nb := run('a:b')\n'''\nc := run('a:b')":              4,
		"x = \"it's\"\nif (x) { }\nb := run('a:b')":               3,
		"x = 'never closed\nb := run('a:b')":                      2,

		// Python as it may be.
		"if (\n  b := run('a:b')\n): pass": 0,
		"x = [\n b := run('a:b')]":         0,
		"\"\"\"\nb := run('a:b')\n\"\"\"":  0,
		"'\\''\nx = 'b := run(1)'":         0,
		"# b := run('a:b')":                0,
		"x := 5":                           0,
		"if b := run('a:b'): pass":         0,
		"":                                 0,
		"'''":                              0,
		"(((":                              0,
	} {
		if got := toolexecLine(source); got != want {
			t.Errorf("%q: line %d, want %d", source, got, want)
		}
	}
}

func FuzzTheToolexecFormIsLookedForWithoutHarm(f *testing.F) {
	f.Add("'''\\\n\"b := run(")
	f.Fuzz(func(_ *testing.T, source string) { toolexecLine(source) })
}

// 800 KB of this took two minutes, which no limit counted.
func TestALongTextIsLookedThroughInOnePass(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"#\n", "# '\n", "'\n", "\"\"\"\n", "'\\", "(#\n", "   \n", "x", "x ", "x := \n"} {
		text := strings.Repeat(line, 3_000_000/len(line)) + "(x := 5)"
		started := time.Now()
		toolexecLine(text)
		if took := time.Since(started); took > 10*time.Second {
			t.Errorf("%q took %s", line, took)
		}
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAStarterOfEveryLanguagePassesItsOwnTestAndSurvivesPullAndSync(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	for language, file := range map[string]string{"python": "a.py", "ts": "b.ts", "js": "c.js", "sh": "d.sh", "go": "e"} {
		name := file[:1]
		a.run("wrote", "tool", "new", name, "-l", language)
		if language == "go" {
			build := exec.Command("go", "build", "-trimpath", "-ldflags=-s", "-o", name+".wasm", "main.go")
			build.Dir = filepath.Join(a.folder, name)
			build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		a.run("fn:"+name+": version 1", "tool", "push", file)
		a.run("one greeting", "tool", "test", name)
		a.runFailing(5, []string{"tool", "new", name, "-l", language}, "already")
	}
	a.run("written", "tool", "pull", "copy")
	out := a.run("", "tool", "sync", "copy", "--check")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if want := "nothing  fn:" + name; !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	a.runFailing(2, []string{"tool", "new", "x", "-l", "cobol"}, "cobol", "python")
}

func TestExamplesLeaveToolsOfTheSameNameAlone(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	a.write("double.py", "def double(x: int) -> int:\n    \"\"\"Double a number.\"\"\"\n    return 2 * x\n")
	a.run("fn:double: version 1", "tool", "push", "double.py")
	a.run("fn:double: left as it is", "tool", "add", "examples")
	a.run("fn:echo", "tool", "add", "examples")
	a.run("1       draft   -         0      Double a number.", "tool", "list")
}

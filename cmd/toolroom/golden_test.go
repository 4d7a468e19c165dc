package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
)

var update = flag.Bool("update", false, "rewrite testdata/golden with what Toolroom answers now")

// programs are the programs that this test binary runs when it is started under their names.
var programs = map[string]func() int{"toolroom": run, "upstream": upstream, "say": runSay}

// secretVariable is an environment variable that no build may see.
const secretVariable = "TOOLROOM_TEST_SECRET"

func TestMain(m *testing.M) {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if program, ok := programs[filepath.Base(os.Args[0])]; ok {
		version = "1.2.3"
		os.Exit(program())
	}
	if err := os.Setenv(secretVariable, "of the environment"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(compiled()); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// compiled returns the cache folder of the homes of the tests, so that engines are compiled
// once and not for each home.
var compiled = sync.OnceValue(func() string {
	folder, err := enginetest.MakeCache()
	if err != nil {
		panic(err)
	}
	return folder
})

// makeHome makes a home that has the shared cache.
func makeHome(t *testing.T, home string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(home, 0o700), os.Symlink(compiled(), filepath.Join(home, "cache"))); err != nil {
		t.Fatal(err)
	}
}

// TestGolden plays the scenarios of testdata/golden against real processes and
// compares all they answer with what the files say. With -update it rewrites
// the files. testdata/golden/README.md describes their form.
func TestGolden(t *testing.T) {
	t.Parallel()
	kit := newKit(t)
	for _, file := range scenarioFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := readScenario(t, file)
			s.play(t, kit)
			compare(t, file, s.format())
		})
	}
}

func scenarioFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	return files
}

// TestGoldenHelp compares the help of every command with testdata/golden/help,
// one file for each command of the first level.
func TestGoldenHelp(t *testing.T) {
	t.Parallel()
	texts := map[string]string{}
	var walk func(path []string)
	walk = func(path []string) {
		var out bytes.Buffer
		p := program()
		p.Out, p.Err, p.Home, p.Dir, p.Config = &out, &out, "HOME", t.TempDir(), ""
		if code := p.Run(t.Context(), append(slices.Clone(path), "--help")); code != 0 {
			t.Fatalf("%v: exit code %d", path, code)
		}
		file := "toolroom"
		if len(path) > 0 {
			file = path[0]
		}
		if len(path) > 0 && path[len(path)-1] == "help" {
			return
		}
		texts[file] += strings.Join(append([]string{"$ toolroom"}, append(path, "--help")...), " ") + "\n" + out.String() + "\n"
		for _, name := range commandsIn(out.String()) {
			walk(append(slices.Clone(path), name))
		}
	}
	walk(nil)
	const folder = "testdata/golden/help"
	old, err := filepath.Glob(folder + "/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range old {
		if _, ok := texts[strings.TrimSuffix(filepath.Base(file), ".txt")]; ok {
			continue
		}
		if t.Errorf("%s is of no command; -update removes it", file); *update {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range texts {
		compare(t, filepath.Join(folder, name+".txt"), text)
	}
}

// commandsIn are the commands that a help text lists.
func commandsIn(help string) (names []string) {
	if !strings.Contains(help, " [command]\n") {
		return nil
	}
	listing := false
	for _, l := range strings.Split(help, "\n") {
		switch heading := !strings.HasPrefix(l, " ") && strings.HasSuffix(l, ":"); {
		case heading:
			listing = !slices.Contains([]string{"Usage:", "Aliases:", "Examples:", "Flags:", "Global Flags:"}, l)
		case listing && strings.HasPrefix(l, "  "):
			names = append(names, strings.Fields(l)[0])
		}
	}
	return names
}

// compare compares got with a file, or writes the file with -update.
func compare(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got), or rewrite it with -update:\n%s", file, diff)
	}
}

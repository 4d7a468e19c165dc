package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamplesPrintTheirDocumentedOutput(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	// One build for all: go run would link them one by one.
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", bin, "./basic", "./chain", "./discovery", "./streaming", "./full", "./codemode", "./runtime", "./mcp-folder", "./governed", "./served")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the examples: %v\n%s", err, out)
	}
	tests := map[string][]string{
		"basic": {
			"ok 5",
			"error invalid_arguments",
		},
		"chain": {
			`text:count {"words":3}`,
			"math:double 6",
			"math:double skipped",
			"math:double 18",
			"ok 18",
		},
		"discovery": {
			"weather:forecast",
			"toolroom call weather:forecast 'city=<city>'",
			"[city] map[city:string]",
		},
		"streaming": {
			"called job:work",
			"log info started",
			"progress 1 of 2",
			`chunk "piece 1"`,
			"progress 2 of 2",
			`chunk "piece 2"`,
			"done finished",
		},
		"codemode": {
			"report.py made 11 calls",
			"todo.txt 8 cc2a888",
			"shopping.txt 4 8d958c4",
			"report.ts made 11 calls",
			"todo.txt 8 cc2a888",
			"shopping.txt 4 8d958c4",
		},
		"governed": {
			"denied",
			"approval_required",
			`may it call bank:pay {"eur":5,"to":"Ann"}`,
			"paid 5 EUR to Ann",
			"approval_required",
			"receipt: denied confirm",
			"receipt: ok confirm",
			"receipt: denied confirm",
		},
		"served": {
			"200 ok Hello, Ann",
			"stopped <nil>",
		},
		"runtime": {
			"ok 42 on js time limited: true memory limited: true",
			"timeout timeout",
			"error resource_limit",
		},
		"full": {
			"tool code:execute builtin",
			"tool git:git cli",
			"tool git:version cli",
			"tool system:info builtin",
			"tool text:first go",
			"first word git",
			"push denied denied",
			"receipts 3",
		},
	}
	page := libraryPage(t)
	if len(page) != 5 {
		t.Errorf("docs/library.md shows %d programs, want 5", len(page))
	}
	for name, shown := range page {
		if diff := cmp.Diff(tests[name], strings.Split(shown, "\n")); diff != "" {
			t.Errorf("docs/library.md says that %s prints something else (-want +got):\n%s", name, diff)
		}
	}
	for name, lines := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := name
			if runtime.GOOS == "windows" {
				program += ".exe"
			}
			run := exec.CommandContext(t.Context(), filepath.Join(bin, program))
			run.Dir = name
			run.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
			out, err := run.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if diff := cmp.Diff(lines, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
				t.Errorf("what it prints differs (-want +got):\n%s", diff)
			}
		})
	}
}

// shownProgram matches a program of docs/library.md, with what it prints.
var shownProgram = regexp.MustCompile("(?s)`examples/([a-z]+)/main.go`:\n```go\n(.*?)```\nIt prints:\n```text\n(.*?)\n```")

// libraryPage returns what docs/library.md says that its programs print, by their names.
// The test fails if the page shows a program differently from its file.
func libraryPage(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "library.md"))
	if err != nil {
		t.Fatal(err)
	}
	prints := map[string]string{}
	for _, m := range shownProgram.FindAllStringSubmatch(string(text), -1) {
		file, err := os.ReadFile(filepath.Join(m[1], "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(file), "\npackage main\n")
		if diff := cmp.Diff("package main\n"+code, m[2]); diff != "" {
			t.Errorf("docs/library.md shows another %s (-file +page):\n%s", m[1], diff)
		}
		prints[m[1]] = m[3]
	}
	return prints
}

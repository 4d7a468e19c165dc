// Package examples runs the examples: what they print is part of them.
package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExamplesPrintWhatTheySay(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	// One build for all: go run would link them one by one.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./basic", "./chain", "./discovery", "./streaming", "./full", "./codemode", "./runtime", "./mcp-folder")
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

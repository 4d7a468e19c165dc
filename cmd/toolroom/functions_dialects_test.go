package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/source/function"
)

func suiteFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "suite", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// oneFile returns the upload of a file of the suite.
func oneFile(name string) func(*testing.T) []release.Upload {
	return func(t *testing.T) []release.Upload {
		return []release.Upload{{Files: map[string]string{name: suiteFile(t, name)}, File: name}}
	}
}

var pythonDialect = dialect{
	name: "python", uploads: oneFile("suite.py"),
	fault: "Own: the reason", frames: []string{"in boom", "in inner"},
}

var typescriptDialect = dialect{
	name: "typescript", uploads: oneFile("suite.ts"),
	fault: "Own: the reason", frames: []string{"at boom (suite.ts:", "at inner (suite.ts:"},
}

// nodeDialect is TypeScript in a process of Node, as with egress.
var nodeDialect = dialect{
	name: "typescript in node",
	uploads: func(t *testing.T) []release.Upload {
		if _, err := exec.LookPath("node"); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Skip("there is no node")
		}
		text := strings.Replace(suiteFile(t, "suite.ts"), "// toolroom:\n", "// toolroom:\n//   engine: process\n", 1)
		text = strings.Replace(text, "limits: {memory_bytes: 60000000}", "limits: {memory_bytes: 300000000}", 1)
		return []release.Upload{{Files: map[string]string{"suite.ts": text}, File: "suite.ts"}}
	},
	fault: "Own: the reason", frames: []string{"at boom (suite.ts:", "at inner (suite.ts:"},
}

var javascriptDialect = dialect{
	name: "javascript", uploads: oneFile("suite.js"),
	fault: "Own: the reason", frames: []string{"at boom (suite.js:", "at inner (suite.js:"},
}

// signatures are the declarations of the tools of the suite, for languages in which they
// are declared apart from the code.
var signatures = map[string]string{
	"echo":         "parameters: {v: {}}\noutput: json",
	"defaults":     `parameters: {a: integer, b: {enum: [x, "y"], default: "y"}}` + "\nreturns: string\noutput: text",
	"boom":         "parameters: {}",
	"nan":          "parameters: {}\noutput: json",
	"cycle":        "parameters: {}\noutput: json",
	"surrogate":    "parameters: {}\noutput: json",
	"wrong":        "parameters: {}\nreturns: integer",
	"big":          "parameters: {}\nreturns: integer",
	"huge":         "parameters: {}",
	"count":        "parameters: {n: integer}\noutput: lines",
	"add":          "parameters: {a: integer, b: integer}\nreturns: integer",
	"sum_all":      "parameters: {values: {type: array, items: {type: integer}}}\nreturns: integer",
	"itself":       "parameters: {}",
	"forever":      "parameters: {}",
	"token_length": "parameters: {}\nreturns: integer\nsecrets: [shop/token]",
	"tell":         "parameters: {}\nsecrets: [shop/token]\noutput: text",
	"undeclared":   "parameters: {}",
	"about":        "parameters: {}\noutput: json\nconfig: {greeting: hello}",
	"report":       "parameters: {}",
	"keep":         "parameters: {}\noutput: text",
	"leak":         "parameters: {secret: string}\nreturns: array",
	"flood":        "parameters: {}",
	"hog":          "parameters: {}\nlimits: {memory_bytes: 100000000}",
}

var scriptDialect = dialect{
	name: "script", lacks: []string{"content"}, // stdout is text
	uploads: func(t *testing.T) []release.Upload {
		var all []release.Upload
		bodies := suiteFile(t, "suite.sh")
		for tool, signature := range signatures {
			header := "#!/bin/sh\n# toolroom:\n#   description: A tool of the suite.\n#   " + strings.ReplaceAll(signature, "\n", "\n#   ") + "\n"
			all = append(all, release.Upload{Files: map[string]string{tool + ".sh": header + bodies}, File: tool + ".sh"})
		}
		return all
	},
	fault: "the reason",
}

var wasmDialect = dialect{
	name: "wasm", lacks: []string{"content"},
	uploads: func(t *testing.T) []release.Upload {
		module := suiteModule(t)
		var all []release.Upload
		for tool, signature := range signatures {
			manifest := "file: suite.wasm\nname: " + tool + "\ndescription: A tool of the suite.\n" + signature + "\n"
			all = append(all, release.Upload{Files: map[string]string{"suite.wasm": module, function.ManifestFile: manifest}})
		}
		return all
	},
	fault: "the reason",
}

// suiteModule returns the text of the module of the suite, which is built once.
func suiteModule(t *testing.T) string {
	t.Helper()
	text, err := buildSuite()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

var buildSuite = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "toolroom-suite")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "suite.wasm")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./testdata/suite")
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", err
	}
	module, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return release.PackFile("suite.wasm", module)
})

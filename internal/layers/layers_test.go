// Package layers holds the rule of which package may import which. Arrows
// point down only; heavy modules stay out of what every program links.
package layers

import (
	"errors"
	"go/build"
	"io/fs"
	"os"
	pathpkg "path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/toolroom/toolroom"

// order lists the layers from the bottom up. A package may import packages of
// its own line only where the line says so, and of lines above it in this list.
var order = []struct {
	name     string
	packages []string // a trailing /... takes in what is below
	peers    bool     // packages of this line may import one another
}{
	{name: "the nouns", packages: []string{""}},
	{name: "leaves", packages: []string{"internal/jsonx", "internal/search/...", "internal/proc", "internal/nearest", "internal/pattern", "internal/listener", "internal/patience", "internal/atomicfile", "internal/jsonpath", "internal/egress/...", "internal/oauth"}},
	{name: "what a file remembers", packages: []string{"internal/trial"}},
	{name: "what operators write", packages: []string{"internal/trusted"}},
	{name: "private keys", packages: []string{"internal/keyfile"}},
	{name: "the bridge", packages: []string{"bridge/...", "internal/code/stub"}, peers: true},
	{name: "where code runs", packages: []string{"sandbox"}},
	{name: "engines and drivers", packages: []string{"sandbox/sandboxtest/...", "internal/engine/...", "internal/sandbox/...", "internal/lockdown/...", "internal/guest/...", "internal/image", "internal/fence"}, peers: true},
	{name: "effects", packages: []string{"internal/effects/..."}, peers: true},
	{name: "schemas", packages: []string{"internal/schema"}},
	{name: "contracts", packages: []string{"source", "internal/source/inflight", "internal/source/secretref"}, peers: true},
	{name: "sources", packages: []string{"source/sourcetest", "internal/source/httpcall/..."}, peers: true},
	{name: "adapters of sources", packages: []string{"internal/source/..."}},
	{name: "policy", packages: []string{"internal/policy/..."}},
	{name: "what the pipeline asks", packages: []string{"internal/catalog", "internal/library", "internal/approval/...", "internal/artifact", "internal/receipt/...", "internal/session", "internal/secret/...", "internal/token", "internal/pin", "internal/poison/...", "internal/taint", "internal/spending"}},
	{name: "the pipeline", packages: []string{"internal/run"}},
	{name: "code mode", packages: []string{"internal/code/..."}},
	{name: "persistence and builtins", packages: []string{"internal/store/...", "internal/builtin/..."}, peers: true},
	{name: "config", packages: []string{"internal/config", "internal/imports"}, peers: true},
	{name: "the room", packages: []string{"room"}},
	{name: "carriers of workflows", packages: []string{"internal/temporal"}},
	{name: "surfaces", packages: []string{"internal/server/...", "internal/cli/..."}, peers: true},
	{name: "what puts a room on the network", packages: []string{"serve"}},
	{name: "mains", packages: []string{"cmd/...", "examples/...", "test/..."}},
}

// heavy modules may be linked only by the packages named.
var heavy = map[string][]string{
	"github.com/modelcontextprotocol/go-sdk": {"internal/server/mcp", "examples/mcp-folder", "test/bench"},
	"mvdan.cc/sh/v3":                         {"internal/effects/shell"},
	"modernc.org/sqlite":                     {"internal/store/sqlite"},
	"github.com/cedar-policy/cedar-go":       {"internal/policy/cedar"},
	"github.com/golang-jwt/jwt/v5":           {"internal/server/oauth"},
	"github.com/danielgtaylor/huma/v2":       {"internal/server/api"},
	"github.com/prometheus/client_golang":    {"internal/server/api"},
	"github.com/zalando/go-keyring":          {"internal/secret/keyring"},
	"github.com/tetratelabs/wazero":          {"internal/engine/wasm", "internal/engine/quickjs", "internal/engine/cpython", "internal/engine/wasmfuel", "internal/engine/wasi", "internal/engine/module/machine"},
	"google.golang.org/protobuf":             {"internal/engine/monty/protocol", "internal/temporal"},
	"go.temporal.io":                         {"internal/temporal"},
	"github.com/evanw/esbuild":               {"internal/engine/js/program"},
	"github.com/dop251/goja":                 {"internal/engine/js/program", "internal/trusted"},
	"github.com/moby/moby":                   {"internal/sandbox/docker"},
	"github.com/containerd/containerd":       {"internal/sandbox/containerd"},
	"k8s.io":                                 {"internal/sandbox/kubernetes", "test/kubernetes"},
}

func TestArrowsPointDownAndHeavyModulesStayInTheirPackages(t *testing.T) {
	for _, p := range list(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		level := levelOf(from)
		if level < 0 {
			if !strings.HasPrefix(from, "internal/layers") {
				t.Errorf("%s is in no layer: add it to the list in this test", p.ImportPath)
			}
			continue
		}
		for _, imported := range p.Imports {
			for m, allowed := range heavy {
				if (imported == m || strings.HasPrefix(imported, m+"/")) && !slices.ContainsFunc(allowed, func(a string) bool { return from == a || strings.HasPrefix(from, a+"/") }) {
					t.Errorf("%s imports %s, which only %v may", from, imported, allowed)
				}
			}
			if !strings.HasPrefix(imported, module) {
				if level == 0 && strings.Contains(imported, ".") {
					t.Errorf("the nouns import %s; they import the standard library only", imported)
				}
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			below := levelOf(to)
			if below > level || below == level && !order[level].peers && !strings.HasPrefix(to, from) && !strings.HasPrefix(from, to) {
				t.Errorf("%s (%s) imports %s (%s): arrows point down only", from, order[level].name, to, order[max(below, 0)].name)
			}
		}
	}
}

// A door that calls a source itself would have no policy, no approval and no
// receipt.
func TestDoorsReachToolsThroughTheRunnerAlone(t *testing.T) {
	for _, p := range list(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if !strings.HasPrefix(from, "internal/server") && !strings.HasPrefix(from, "internal/cli") && !strings.HasPrefix(from, "cmd/") {
			continue
		}
		for _, imported := range p.Imports {
			if to := strings.TrimPrefix(imported, module+"/"); strings.HasPrefix(to, "internal/source/") {
				t.Errorf("%s imports %s: a call goes through run.Runner", from, to)
			}
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			// Who calls a source, under whatever name, makes a request for it.
			for _, sign := range []string{"Source.Call(", "source.Request"} {
				if strings.Contains(string(text), sign) {
					t.Errorf("%s/%s has %s, as who calls a source: a call goes through run.Runner", from, name, sign)
				}
			}
		}
	}
}

// Whoever can reach the runner can make calls, and who makes calls by itself,
// such as a schedule or a trigger, is a door. Nothing of the kind is there.
func TestWhoeverCanMakeCallsIsADoorOfTheSurfaceTest(t *testing.T) {
	named := []string{
		"room",                         // doors "Go ..."
		"internal/cli", "cmd/toolroom", // doors "command line ..."
		"internal/server", "internal/server/api", "internal/server/mcp", // doors "HTTP ...", "MCP ..."
		"serve",                                                               // hands its room to internal/server
		"internal/code",                                                       // doors "code mode ..."
		"internal/temporal",                                                   // test/temporal
		"internal/store", "internal/store/sqlite", "internal/store/storetest", // keep what the runner hands them
	}
	for _, p := range list(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		calls := slices.Contains(p.Imports, module+"/internal/run") || slices.Contains(p.Imports, module+"/room")
		if calls && !slices.Contains(named, from) && !strings.HasPrefix(from, "examples/") && !strings.HasPrefix(from, "test/") {
			t.Errorf("%s can make calls: give what it calls a row in test/surface, and name it here", from)
		}
	}
}

func levelOf(path string) int {
	// The longest pattern that fits decides, so that a line may except one
	// package of another line's folder.
	best, length := -1, -1
	for level, line := range order {
		for _, pattern := range line.packages {
			folder, deep := strings.CutSuffix(pattern, "/...")
			if path == folder || deep && strings.HasPrefix(path, folder+"/") {
				if len(folder) > length {
					best, length = level, len(folder)
				}
			}
		}
	}
	return best
}

// list reads the imports of every package itself, in place of asking go list:
// so the test cache knows the files that the answer depends on.
func list(t *testing.T) []*build.Package {
	t.Helper()
	root := filepath.Join("..", "..")
	var packages []*build.Package
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "tools") {
			return fs.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if noGo := (*build.NoGoError)(nil); errors.As(err, &noGo) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		p.ImportPath = pathpkg.Join(module, filepath.ToSlash(relative))
		packages = append(packages, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

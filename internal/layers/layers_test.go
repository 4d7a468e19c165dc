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

	"golang.org/x/mod/modfile"
)

const module = "github.com/toolroom/toolroom"

// order lists the layers from the bottom up. A package may import packages of lines
// above its own in this list, and of its own line if that has peers.
var order = []struct {
	name     string
	packages []string // a trailing /... includes the packages below
	peers    bool     // packages of this line may import one another
}{
	{name: "core types", packages: []string{""}},
	{name: "panics as errors", packages: []string{"internal/panics"}},
	{name: "identities", packages: []string{"internal/identity"}},
	{name: "leaves", packages: []string{"internal/jsonx", "internal/search/...", "internal/nearest", "internal/reserved", "internal/pattern", "internal/deadline", "internal/atomicfile", "internal/expression", "internal/egress/...", "internal/oauth", "internal/taint", "internal/visible", "internal/yamldate"}},
	{name: "the Model Context Protocol", packages: []string{"mcp/..."}},
	{name: "embedders", packages: []string{"internal/embed"}},
	{name: "the bridge", packages: []string{"bridge/...", "internal/code/stub"}, peers: true},
	{name: "sandboxes", packages: []string{"sandbox"}},
	{name: "processes", packages: []string{"internal/proc"}},
	{name: "isolation", packages: []string{"internal/lockdown/...", "internal/netjail/...", "internal/restrict"}, peers: true},
	{name: "what runs in workers and guests", packages: []string{"internal/engine", "internal/engine/wasm", "internal/engine/quickjs", "internal/engine/worker", "internal/engine/module"}, peers: true},
	{name: "the guest", packages: []string{"internal/guest/..."}, peers: true},
	{name: "engines", packages: []string{"internal/engine/..."}, peers: true},
	{name: "drivers", packages: []string{"internal/sandbox/..."}, peers: true},
	{name: "the suite of drivers", packages: []string{"sandbox/sandboxtest/..."}, peers: true},
	{name: "drivers of foreign engines", packages: []string{"drivers/docker", "drivers/containerd", "drivers/gvisor", "drivers/kubernetes", "drivers/microvm/...", "drivers/proxmox", "drivers/oci", "drivers/image", "drivers/turn"}, peers: true},
	{name: "effects", packages: []string{"internal/effects/..."}, peers: true},
	{name: "schemas", packages: []string{"internal/schema"}},
	{name: "interfaces of sources", packages: []string{"source", "internal/source/secretref"}, peers: true},
	{name: "sources", packages: []string{"source/sourcetest", "internal/source/httpcall/..."}, peers: true},
	{name: "adapters of sources", packages: []string{"internal/source/..."}},
	{name: "policy", packages: []string{"internal/policy/..."}},
	{name: "services of the pipeline", packages: []string{"internal/catalog", "internal/approval/...", "internal/artifact", "internal/receipt/...", "internal/session", "internal/secret/...", "internal/token", "docs/errors", "internal/release"}},
	{name: "the pipeline", packages: []string{"internal/run"}},
	{name: "code mode", packages: []string{"internal/code/..."}},
	{name: "schedules", packages: []string{"internal/schedule"}},
	{name: "persistence and builtins", packages: []string{"internal/store/...", "internal/builtin/..."}, peers: true},
	{name: "config", packages: []string{"internal/config", "internal/servers"}, peers: true},
	{name: "consent to configs", packages: []string{"internal/consent"}},
	{name: "backups", packages: []string{"internal/backup"}},
	{name: "configs of clients", packages: []string{"internal/clients", "internal/service"}},
	{name: "the wiring", packages: []string{"internal/app"}},
	{name: "the public room", packages: []string{"room"}},
	{name: "workflows", packages: []string{"drivers/temporal"}},
	{name: "surfaces", packages: []string{"internal/server/...", "internal/toolflow", "internal/cli/..."}, peers: true},
	{name: "the public server", packages: []string{"serve"}},
	{name: "what tests share", packages: []string{"test/builtintest", "test/double"}},
	{name: "mains", packages: []string{"cmd/...", "examples/...", "test/...", "drivers", "drivers/cmd/...", "drivers/test/...", "packaging"}},
}

// heavy lists modules that only the packages named may import.
var heavy = map[string][]string{
	"github.com/modelcontextprotocol/go-sdk":       {"test/bench"},
	"mvdan.cc/sh/v3":                               {"internal/effects"},
	"modernc.org/sqlite":                           {"internal/store/sqlite"},
	"github.com/cedar-policy/cedar-go":             {"internal/policy/cedar"},
	"github.com/golang-jwt/jwt/v5":                 {"internal/server/auth", "internal/oauth"},
	"github.com/danielgtaylor/huma/v2":             {"internal/server/api"},
	"github.com/prometheus/client_golang":          {"internal/server/api"},
	"github.com/zalando/go-keyring":                {"internal/secret/backend"},
	"github.com/tetratelabs/wazero":                {"internal/engine/wasm", "internal/engine/quickjs", "internal/engine/py", "internal/engine/module"},
	"google.golang.org/protobuf":                   {"internal/engine/monty/protocol", "drivers/temporal"},
	"google.golang.org/grpc":                       {"drivers/temporal", "drivers/containerd"},
	"go.temporal.io":                               {"drivers/temporal", "drivers/test/temporal"},
	"github.com/chromedp":                          {"internal/builtin/browser"},
	"codeberg.org/readeck/go-readability":          {"internal/builtin/document"},
	"github.com/JohannesKaufmann/html-to-markdown": {"internal/builtin/document"},
	"github.com/ledongthuc/pdf":                    {"internal/builtin/document"},
	"github.com/evanw/esbuild":                     {"internal/engine/js"},
	"github.com/tailscale/hujson":                  {"internal/clients"},
	"github.com/expr-lang/expr":                    {"internal/expression"},
	"github.com/netresearch/go-cron":               {"internal/schedule"},
	"github.com/dop251/goja":                       {"internal/engine/js"},
	"github.com/moby/moby":                         {"drivers/docker"},
	"github.com/containerd/containerd":             {"drivers/containerd"},
	"k8s.io":                                       {"drivers/kubernetes", "drivers/test/kubernetes"},
}

func TestImportsPointDownAndHeavyModulesStayInTheirPackages(t *testing.T) {
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
					t.Errorf("%s imports %s, which only %v may import", from, imported, allowed)
				}
			}
			if !strings.HasPrefix(imported, module) {
				if level == 0 && strings.Contains(imported, ".") {
					t.Errorf("the core types import %s; they may import the standard library only", imported)
				}
				continue
			}
			to := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
			if inModule(to) && !inModule(from) {
				t.Errorf("%s imports %s of another module: the runner has that, see internal/app/runner.go", from, to)
			}
			below := levelOf(to)
			if below > level || below == level && !order[level].peers && !strings.HasPrefix(to, from) && !strings.HasPrefix(from, to) {
				t.Errorf("%s (%s) imports %s (%s): a package may import lower layers only", from, order[level].name, to, order[max(below, 0)].name)
			}
		}
	}
}

// inModule reports whether a package is in the module drivers.
func inModule(p string) bool { return p == "drivers" || strings.HasPrefix(p, "drivers/") }

// foreign are modules of foreign engines. Only the module drivers may need them, also for
// what other modules need.
var foreign = []string{
	"github.com/moby/", "github.com/docker/", "github.com/containerd/", "github.com/opencontainers/", "k8s.io/", "sigs.k8s.io/",
	"go.temporal.io/", "google.golang.org/grpc", "github.com/grpc-ecosystem/",
}

func TestProgramsThatEmbedToolroomNeedNoModuleOfAForeignEngine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Require) < 20 {
		t.Fatalf("go.mod requires only %d modules", len(file.Require))
	}
	for _, r := range file.Require {
		for _, f := range foreign {
			if strings.HasPrefix(r.Mod.Path, f) {
				t.Errorf("go.mod requires %s: move what needs it to the module drivers", r.Mod.Path)
			}
		}
	}
}

// If a surface called a source itself, the call would have no policy, no approval and
// no receipt.
func TestSurfacesReachToolsOnlyThroughTheRunner(t *testing.T) {
	for _, p := range list(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		if !strings.HasPrefix(from, "internal/server") && !strings.HasPrefix(from, "internal/cli") && !strings.HasPrefix(from, "cmd/") {
			continue
		}
		for _, imported := range p.Imports {
			if to := strings.TrimPrefix(imported, module+"/"); strings.HasPrefix(to, "internal/source/") {
				t.Errorf("%s imports %s: make calls through run.Runner", from, to)
			}
		}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			// Every call of a source needs a request.
			for _, sign := range []string{"Source.Call(", "source.Request"} {
				if strings.Contains(string(text), sign) {
					t.Errorf("%s/%s contains %s, so it calls a source: make the call through run.Runner", from, name, sign)
				}
			}
		}
	}
}

// A package that can reach the runner can make calls, and so needs a row in the test of
// surfaces. That includes a package that makes calls by itself, such as for a schedule.
func TestPackagesThatMakeCallsAreInTheSurfaceTest(t *testing.T) {
	named := []string{
		"internal/app", "room", // rows "Go ..."
		"internal/cli", "cmd/toolroom", // rows "command line ..."
		"internal/server", "internal/server/api", "internal/server/mcp", "internal/toolflow", // rows "HTTP ...", "MCP ..."
		"serve",                                                        // passes its room to internal/server
		"internal/code",                                                // rows "code mode ..."
		"internal/schedule",                                            // row "a schedule"
		"internal/cli/start", "drivers", "drivers/cmd/toolroom-runner", // the command line
		"drivers/temporal",      // drivers/test/temporal
		"internal/store/sqlite", // stores records of the runner
	}
	for _, p := range list(t) {
		from := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		calls := slices.Contains(p.Imports, module+"/internal/run") || slices.Contains(p.Imports, module+"/internal/app") || slices.Contains(p.Imports, module+"/room")
		if calls && !slices.Contains(named, from) && !strings.HasPrefix(from, "examples/") && !strings.HasPrefix(from, "test/") {
			t.Errorf("%s can make calls: add a row for them to test/surface, and the package to this list", from)
		}
	}
}

func levelOf(path string) int {
	// The longest matching pattern decides, so that a line may have one package of
	// another line's folder.
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

// list reads the imports of every package itself instead of running go list, so that
// the test cache knows the files on which the result depends.
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

package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// Packages says where the packages of a tool are, and what runs it.
type Packages struct {
	// Folder has the folder node_modules; empty means that there are no packages.
	Folder string
	// Node makes a bundle for Node. Otherwise the bundle runs in any engine, and
	// [Bundle.NeedsNode] says why it cannot.
	Node bool
}

// External is a package that is not part of a bundle: a guest loads it from the folder.
type External struct {
	// Importer is the folder that imports it, relative to that of the packages, and Name
	// is what it imports.
	Importer, Name string
}

// Key returns the external as the text that a guest knows it by.
func (e External) Key() string { return e.Importer + "|" + e.Name }

// builtins are the modules of Node. They can also be written with node: before them.
var builtins = wordSet("assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns dns/promises domain events fs fs/promises http http2 https inspector module net os path path/posix path/win32 perf_hooks process punycode querystring readline readline/promises repl stream stream/consumers stream/promises stream/web string_decoder timers timers/promises tls tty url util util/types v8 vm wasi worker_threads zlib")

func isBuiltin(name string) bool { return strings.HasPrefix(name, "node:") || builtins[name] }

// nodeGlobals are global variables of Node that the other engines lack.
var nodeGlobals = strings.Fields("process Buffer setImmediate clearImmediate __dirname __filename fetch Headers Request Response FormData Blob URL URLSearchParams structuredClone AbortController AbortSignal EventTarget Event Intl WebAssembly MessageChannel Atomics ReadableStream WritableStream TransformStream")

// marker is the prefix of the names that stand for nodeGlobals in a bundle for other
// engines. esbuild puts them in where a name is not the code's own.
const marker = "__toolroom_node_"

// imports follows marker in the names that stand for modules of Node.
const imports = "import_"

var notWord = regexp.MustCompile(`\W`)

var marked = regexp.MustCompile(`(typeof\s+)?\b` + marker + `(\w+)__\b`)

// unmarked returns a bundle with the names that code has, and the first thing of Node that
// it uses without asking in the same line whether it is there; esbuild writes a statement
// in a line.
func unmarked(source []byte) (text, uses string) {
	for line := range bytes.Lines(source) {
		asked := map[string]bool{}
		for _, found := range marked.FindAllSubmatch(line, -1) {
			name := string(found[2])
			asked[name] = asked[name] || len(found[1]) > 0
			if !asked[name] && uses == "" {
				uses = "it uses " + name
				if module, ok := strings.CutPrefix(name, imports); ok {
					uses = "it imports " + module
				}
			}
		}
	}
	return string(marked.ReplaceAll(source, []byte("$1$2"))), uses
}

// outside matches what only works for a package in its own folder: it reads files beside
// it, or chooses modules when it runs.
var outside = regexp.MustCompile("\\b__(?:dirname|filename)\\b|\\bimport\\.meta\\.(?:url|dirname|filename|resolve)\\b|\\brequire\\.resolve\\b|\\bcreateRequire\\b|\\brequire\\(\\s*[^'\"\\s)]")

// maxRebuilds bounds the packages of a bundle that must stay outside of it.
const maxRebuilds = 64

// resolver makes esbuild find the modules of a tool and of its packages.
type resolver struct {
	packages Packages
	root     string // the real path of packages.Folder
	// kept are the packages that stay outside of the bundle, and externals how they are
	// imported.
	kept      map[string]bool
	externals []External
	// needsNode says why the bundle cannot run elsewhere.
	needsNode string
}

func newResolver(p Packages) (*resolver, error) {
	r := &resolver{packages: p, kept: map[string]bool{}}
	if p.Folder == "" {
		return r, nil
	}
	var err error
	r.root, err = filepath.EvalSymlinks(p.Folder)
	return r, err
}

func (r *resolver) require(reason string) {
	if r.needsNode == "" {
		r.needsNode = reason
	}
}

const (
	inBuiltin  = "builtin"
	inExternal = "external"
)

// resolve finds a module that is neither a file of the tool nor toolroom. An empty result
// lets esbuild search the packages.
func (r *resolver) resolve(a api.OnResolveArgs) (api.OnResolveResult, error) {
	if isBuiltin(a.Path) {
		// Without side effects, an import that is not used is left out.
		return api.OnResolveResult{Path: strings.TrimPrefix(a.Path, "node:"), Namespace: inBuiltin, SideEffects: api.SideEffectsFalse}, nil
	}
	if strings.HasPrefix(a.Path, ".") || filepath.IsAbs(a.Path) {
		return api.OnResolveResult{}, nil
	}
	name := packageOf(a.Path)
	if r.root == "" {
		return api.OnResolveResult{}, fmt.Errorf("there is no module %q: a tool can import the files of its folder, \"toolroom\", and the packages that it declares: add %q to dependencies", a.Path, name)
	}
	if !r.kept[name] || !r.packages.Node {
		return api.OnResolveResult{}, nil
	}
	importer := ""
	if a.Namespace == "file" {
		rel, err := filepath.Rel(r.root, filepath.Dir(a.Importer))
		if err != nil {
			return api.OnResolveResult{}, err
		}
		importer = filepath.ToSlash(rel)
	}
	one := External{Importer: importer, Name: a.Path}
	if !slices.Contains(r.externals, one) {
		r.externals = append(r.externals, one)
	}
	return api.OnResolveResult{Path: one.Key(), Namespace: inExternal}, nil
}

// packageOf returns the package of an import such as a/b or @a/b/c.
func packageOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func (r *resolver) setup(b api.PluginBuild) {
	module := func(namespace string, text func(path string) string) {
		b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: namespace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			contents := text(a.Path)
			return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJS}, nil
		})
	}
	module(inBuiltin, func(name string) string {
		if !r.packages.Node {
			return "module.exports = " + marker + imports + notWord.ReplaceAllString(name, "_") + "__"
		}
		return fmt.Sprintf("module.exports = globalThis.require(%q)", "node:"+name)
	})
	module(inExternal, func(key string) string { return fmt.Sprintf("module.exports = globalThis.__toolroom_load__(%q)", key) })
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "file"}, r.load)
}

// load reads a file of a package. If a package cannot be part of a bundle, it is kept
// outside, and the bundle must be made again.
func (r *resolver) load(a api.OnLoadArgs) (api.OnLoadResult, error) {
	inside, err := filepath.Rel(r.root, a.Path)
	if err != nil || r.root == "" || !filepath.IsLocal(inside) {
		return api.OnLoadResult{}, fmt.Errorf("%s is outside of the packages", a.Path)
	}
	text, err := os.ReadFile(a.Path)
	if err != nil {
		return api.OnLoadResult{}, err
	}
	loader := map[string]api.Loader{".js": api.LoaderJS, ".mjs": api.LoaderJS, ".cjs": api.LoaderJS, ".json": api.LoaderJSON}[filepath.Ext(a.Path)]
	code := string(text)
	switch {
	case loader == api.LoaderNone, loader == api.LoaderJS && (outside.MatchString(code) || measure(code) != nil), loader == api.LoaderJSON && !json.Valid(text):
		inside = filepath.ToSlash(inside)
		name := packageOf(inside[strings.LastIndex("/"+inside, "/node_modules/")+len("node_modules/"):])
		r.kept[name] = true
		r.require("its package " + name + " needs its own folder")
		empty := ""
		return api.OnLoadResult{Contents: &empty, Loader: api.LoaderJS}, nil
	}
	return api.OnLoadResult{Contents: &code, Loader: loader, ResolveDir: filepath.Dir(a.Path)}, nil
}

// options completes the options of a bundle.
func (r *resolver) options(o *api.BuildOptions) {
	if r.root == "" && !r.packages.Node {
		return
	}
	o.TsconfigRaw = "{}" // none is searched for outside of the tool
	o.Define = map[string]string{"process.env.NODE_ENV": `"production"`}
	if r.packages.Node {
		o.Platform, o.MainFields = api.PlatformNode, []string{"module", "main"}
		return
	}
	o.MainFields = []string{"module", "main"}
	o.Define["global"] = "globalThis"
	for _, name := range nodeGlobals {
		o.Define[name] = marker + name + "__"
	}
}

// prologue are the statements before a bundle that load what is not part of it.
func (r *resolver) prologue() string {
	if len(r.externals) == 0 {
		return strict
	}
	var keys []string
	for _, one := range r.externals {
		keys = append(keys, one.Key())
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return strict
	}
	return strict + "await globalThis.__toolroom_load_all__(" + string(text) + ");"
}

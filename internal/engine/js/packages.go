package js

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/toolroom/toolroom/internal/pattern"
)

// Packages says where the packages of a tool are, and what runs it.
type Packages struct {
	// Folder has the folder node_modules; empty means that there are no packages.
	Folder string
	// Node makes a bundle for Node. Otherwise the bundle runs in any engine, and
	// [Bundle.NeedsNode] says why it cannot.
	Node bool
}

// Key returns the key under which a guest keeps a module that it has loaded with Node: a package
// of the folder, or one of Node's own modules, whose names begin with node:. The part before the
// bar is the folder that imports it, that of the packages.
func Key(name string) string { return "|" + name }

// builtins are the modules of Node. They can also be written with node: before them.
var builtins = wordSet("assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns dns/promises domain events fs fs/promises http http2 https inspector module net os path path/posix path/win32 perf_hooks process punycode querystring readline readline/promises repl stream stream/consumers stream/promises stream/web string_decoder timers timers/promises tls tty url util util/types v8 vm wasi worker_threads zlib")

func isBuiltin(name string) bool { return strings.HasPrefix(name, "node:") || builtins[name] }

// nodeGlobals are global variables of Node that the other engines lack.
var nodeGlobals = strings.Fields("process Buffer setImmediate clearImmediate __dirname __filename fetch Headers Request Response FormData Blob URL URLSearchParams structuredClone AbortController AbortSignal EventTarget Event Intl WebAssembly MessageChannel Atomics ReadableStream WritableStream TransformStream")

// nodeMarker is the prefix of the names that replace nodeGlobals in a bundle for other engines.
// esbuild replaces a name only if the code does not declare it.
const nodeMarker = "__toolroom_node_"

// importMarker follows marker in the names that stand for modules of Node.
const importMarker = "import_"

var notWord = pattern.Lazy(`\W`)

var markedName = pattern.Lazy(`(typeof\s+)?\b` + nodeMarker + `(\w+)__\b`)

// restoreNames returns a bundle with its original names in place of the marked ones. uses is the
// first of Node's globals or modules that it uses without a test in the same line whether it
// exists; esbuild writes each statement on one line.
func restoreNames(source []byte) (text, uses string) {
	for line := range bytes.Lines(source) {
		asked := map[string]bool{}
		for _, found := range markedName().FindAllSubmatch(line, -1) {
			name := string(found[2])
			asked[name] = asked[name] || len(found[1]) > 0
			if !asked[name] && uses == "" {
				uses = "it uses " + name
				if module, ok := strings.CutPrefix(name, importMarker); ok {
					uses = "it imports " + module
				}
			}
		}
	}
	return string(markedName().ReplaceAll(source, []byte("$1$2"))), uses
}

// needsFolder matches code that only works if the package is in its own folder: it reads files of
// the folder, or chooses modules at run time.
var needsFolder = pattern.Lazy("\\b__(?:dirname|filename)\\b|\\bimport\\.meta\\.(?:url|dirname|filename|resolve)\\b|\\brequire\\.resolve\\b|\\bcreateRequire\\b|\\brequire\\(\\s*[^'\"\\s)]")

// resolver makes esbuild find the modules of a tool and of its packages.
type resolver struct {
	packages Packages
	root     string // the real path of packages.Folder
	// externals are the packages that a bundle for Node loads from the folder.
	externals []string
	// needsNode says why the bundle cannot run elsewhere.
	needsNode string
	// starExports is set in the pass that only counts exports.
	starExports *starExports
	// importFailed is set when an import was not found.
	importFailed *atomic.Bool
}

// importError returns the error of an import that was not found. Only the first one is reported,
// because esbuild takes time in proportion to the line to locate each.
func (r *resolver) importError(err error) (api.OnResolveResult, error) {
	if r.importFailed.Swap(true) {
		return api.OnResolveResult{External: true}, nil
	}
	return api.OnResolveResult{}, err
}

// sourceText returns the text of a file as esbuild gets it.
func (r *resolver) sourceText(a api.OnLoadArgs, text string) string {
	if r.starExports == nil {
		return text
	}
	return r.starExports.withoutStars(a.Namespace+":"+a.Path, text)
}

func newResolver(p Packages) (*resolver, error) {
	r := &resolver{packages: p, importFailed: &atomic.Bool{}}
	if p.Folder == "" {
		return r, nil
	}
	var err error
	r.root, err = filepath.EvalSymlinks(p.Folder)
	return r, err
}

func (r *resolver) requireNode(reason string) {
	if r.needsNode == "" {
		r.needsNode = reason
	}
}

const (
	builtinNamespace  = "builtin"
	externalNamespace = "external"
)

// resolve finds a module that is neither a file of the tool nor toolroom. An empty result
// lets esbuild search the packages.
func (r *resolver) resolve(a api.OnResolveArgs) (api.OnResolveResult, error) {
	if isBuiltin(a.Path) {
		// Without side effects, an import that is not used is left out.
		return api.OnResolveResult{Path: strings.TrimPrefix(a.Path, "node:"), Namespace: builtinNamespace, SideEffects: api.SideEffectsFalse}, nil
	}
	switch {
	case a.Namespace == toolNamespace && filepath.IsAbs(a.Path):
		return r.importError(fmt.Errorf("there is no module %q: add it to dependencies", a.Path))
	case strings.HasPrefix(a.Path, "."), filepath.IsAbs(a.Path):
		return api.OnResolveResult{}, nil
	}
	name := packageOf(a.Path)
	if r.root == "" {
		return r.importError(fmt.Errorf("there is no module %q: a tool can import the files of its folder, \"toolroom\", and the packages that it declares: add %q to dependencies", a.Path, name))
	}
	if !r.packages.Node {
		return api.OnResolveResult{}, nil
	}
	if !requirable(filepath.Join(r.root, "node_modules", filepath.FromSlash(name)), strings.TrimPrefix(a.Path, name)) {
		return api.OnResolveResult{}, nil // it becomes part of the bundle; if it is not there, esbuild says so
	}
	if !slices.Contains(r.externals, a.Path) {
		r.externals = append(r.externals, a.Path)
	}
	return api.OnResolveResult{Path: Key(a.Path), Namespace: externalNamespace}, nil
}

// requirable reports whether Node's require certainly finds the part sub of the package in a
// folder. It does not if the part is exported for import only.
func requirable(folder, sub string) bool {
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		info, err := os.Stat(folder)
		return err == nil && info.IsDir()
	}
	var p struct{ Exports any }
	if json.Unmarshal(text, &p) != nil {
		return false
	}
	exported := p.Exports
	if paths, ok := exported.(map[string]any); ok {
		if one, ok := paths["."+sub]; ok {
			exported = one
		} else if sub != "" {
			return false
		}
	}
	return exported == nil || hasRequireEntry(exported)
}

// hasRequireEntry reports whether an entry of exports names a file for require.
func hasRequireEntry(exported any) bool {
	switch e := exported.(type) {
	case string:
		return true
	case map[string]any:
		for _, condition := range []string{"node", "require", "default"} {
			if one, ok := e[condition]; ok && hasRequireEntry(one) {
				return true
			}
		}
	}
	return false
}

// packageOf returns the package of an import such as a/b or @a/b/c.
func packageOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	if strings.HasPrefix(name, "@") && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// requireCall matches the call in a bundle that loads one of Node's modules.
var requireCall = pattern.Lazy(`globalThis\.require\("(node:[a-z0-9_/]+)"\)`)

func (r *resolver) setup(b api.PluginBuild) {
	module := func(namespace string, text func(path string) string) {
		b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: namespace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
			contents := text(a.Path)
			return api.OnLoadResult{Contents: &contents, Loader: api.LoaderJS}, nil
		})
	}
	module(builtinNamespace, func(name string) string {
		if !r.packages.Node {
			return "module.exports = " + nodeMarker + importMarker + notWord().ReplaceAllString(name, "_") + "__"
		}
		return fmt.Sprintf("module.exports = globalThis.require(%q)", "node:"+name)
	})
	module(externalNamespace, func(key string) string { return fmt.Sprintf("module.exports = globalThis.__toolroom_load__(%q)", key) })
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "file"}, r.load)
}

// load reads a file of a package.
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
	case loader == api.LoaderNone, loader == api.LoaderJS && (needsFolder().MatchString(code) || measure(code) != nil), loader == api.LoaderJSON && !json.Valid(text):
		inside = filepath.ToSlash(inside)
		name := packageOf(inside[strings.LastIndex("/"+inside, "/node_modules/")+len("node_modules/"):])
		if r.packages.Node {
			return api.OnLoadResult{}, fmt.Errorf("the package %s needs its own folder, but is exported for import only", name)
		}
		r.requireNode("its package " + name + " needs its own folder")
		empty := ""
		return api.OnLoadResult{Contents: &empty, Loader: api.LoaderJS}, nil
	}
	code = r.sourceText(a, code)
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
		o.Define[name] = nodeMarker + name + "__"
	}
}

// prologue returns the statements before a bundle that load the modules outside of it.
func (r *resolver) prologue() string {
	if len(r.externals) == 0 {
		return strictPrefix
	}
	var keys []string
	for _, one := range r.externals {
		keys = append(keys, Key(one))
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return strictPrefix
	}
	return strictPrefix + "await globalThis.__toolroom_load_all__(" + string(text) + ");"
}

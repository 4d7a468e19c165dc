package js

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

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

// Key returns the text by which a guest knows what it loads with Node: a package of the
// folder, or a module of Node that begins with node:. What stands before the bar is the
// importing folder, that of the packages.
func Key(name string) string { return "|" + name }

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

// resolver makes esbuild find the modules of a tool and of its packages.
type resolver struct {
	packages Packages
	root     string // the real path of packages.Folder
	// externals are the packages that a bundle for Node loads from the folder.
	externals []string
	// needsNode says why the bundle cannot run elsewhere.
	needsNode string
	// stars is set while exports are counted only.
	stars *stars
	// failed says that an import was not found.
	failed *atomic.Bool
}

// missing returns the error of an import. Only the first is shown, and to find the place of
// each takes esbuild as long as its line.
func (r *resolver) missing(err error) (api.OnResolveResult, error) {
	if r.failed.Swap(true) {
		return api.OnResolveResult{External: true}, nil
	}
	return api.OnResolveResult{}, err
}

// text returns what esbuild reads of a file.
func (r *resolver) text(a api.OnLoadArgs, text string) string {
	if r.stars == nil {
		return text
	}
	return r.stars.plain(a.Namespace+":"+a.Path, text)
}

func newResolver(p Packages) (*resolver, error) {
	r := &resolver{packages: p, failed: &atomic.Bool{}}
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
	switch {
	case a.Namespace == inTool && filepath.IsAbs(a.Path):
		return r.missing(fmt.Errorf("there is no module %q: add it to dependencies", a.Path))
	case strings.HasPrefix(a.Path, "."), filepath.IsAbs(a.Path):
		return api.OnResolveResult{}, nil
	}
	name := packageOf(a.Path)
	if r.root == "" {
		return r.missing(fmt.Errorf("there is no module %q: a tool can import the files of its folder, \"toolroom\", and the packages that it declares: add %q to dependencies", a.Path, name))
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
	return api.OnResolveResult{Path: Key(a.Path), Namespace: inExternal}, nil
}

// requirable reports whether Node's require surely finds the part sub of the package in a
// folder: not if it is exported for import only.
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
	return exported == nil || forRequire(exported)
}

// forRequire reports whether an entry of exports names a file for require.
func forRequire(exported any) bool {
	switch e := exported.(type) {
	case string:
		return true
	case map[string]any:
		for _, condition := range []string{"node", "require", "default"} {
			if one, ok := e[condition]; ok && forRequire(one) {
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

// requires matches what stands in a bundle for a module of Node.
var requires = regexp.MustCompile(`globalThis\.require\("(node:[a-z0-9_/]+)"\)`)

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
	case loader == api.LoaderNone, loader == api.LoaderJS && (outside.MatchString(code) || measure(code) != nil), loader == api.LoaderJSON && !json.Valid(text):
		inside = filepath.ToSlash(inside)
		name := packageOf(inside[strings.LastIndex("/"+inside, "/node_modules/")+len("node_modules/"):])
		if r.packages.Node {
			return api.OnLoadResult{}, fmt.Errorf("the package %s needs its own folder, but is exported for import only", name)
		}
		r.require("its package " + name + " needs its own folder")
		empty := ""
		return api.OnLoadResult{Contents: &empty, Loader: api.LoaderJS}, nil
	}
	code = r.text(a, code)
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
		keys = append(keys, Key(one))
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return strict
	}
	return strict + "await globalThis.__toolroom_load_all__(" + string(text) + ");"
}

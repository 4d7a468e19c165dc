package js

import (
	"fmt"
	"maps"
	pathpkg "path"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/go-sourcemap/sourcemap"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/pattern"
)

// Bundle is the files of a tool, joined to one text.
type Bundle struct {
	// Source are statements of an asynchronous function, after which the global variable
	// named [Entry] is the function that is the tool. It has no code that the tool cannot
	// reach.
	Source string

	// NeedsNode says why the bundle runs in Node only, if it does.
	NeedsNode string
	// Externals are the packages that Source does not contain, because Node loads them. A
	// process can do so before it knows the program.
	Externals []string
	// Builtins are the modules of Node that Source loads, such as node:fs.
	Builtins []string

	sources   *sourcemap.Consumer
	lines     int
	prefixLen int // the length of the first line before the files' text
}

// Entry is the global variable that a bundle sets.
const Entry = "__toolroom_entry__"

// moduleAPI is the global variable that holds the exports of the module toolroom.
const moduleAPI = "__toolroom_module_toolroom__"

// NewBundle makes one text of the main file, the files that it imports and their packages,
// for the function that the main file exports as entry. If it is local, the file does not
// export it. Nothing of it runs. A failure names the place of the mistake.
func NewBundle(files map[string]string, main, entry string, local bool, packages Packages) (*Bundle, *bridge.Failure) {
	left := maxExported
	all := enums{found: slices.ContainsFunc(slices.Collect(maps.Values(files)), func(text string) bool { return strings.Contains(text, "enum") })}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if loaders[pathpkg.Ext(name)] == api.LoaderNone {
			continue
		}
		u := all.measure(files[name])
		if u == nil {
			u = all.tooLong()
		}
		if left -= exportsOf(files[name]); u == nil && left < 0 {
			u = &tooComplex{0, "its files have too many exports for their size: export what others need"}
		}
		if u != nil {
			f := &bridge.Failure{Kind: bridge.FailSyntax, Type: "SyntaxError", Message: "it is not parsed: " + u.reason, File: name}
			f.Line, f.Column = position(files[name], u.at)
			return nil, f
		}
	}
	r, err := newResolver(packages)
	if err != nil {
		return nil, &bridge.Failure{Kind: bridge.FailProgram, Message: "its packages cannot be read: " + err.Error(), File: main}
	}
	first := *r
	first.starExports, first.importFailed = newStars(), &atomic.Bool{}
	b, failure := first.build(files, main, entry, local)
	switch {
	case first.starExports.tooMany():
		return nil, &bridge.Failure{Kind: bridge.FailSyntax, Type: "SyntaxError", Message: "its files export too much of one another: name what is exported, instead of *", File: main}
	case len(first.starExports.to) > 0:
		b, failure = r.build(files, main, entry, local)
	default:
		r = &first
	}
	if !packages.Node && r.needsNode != "" {
		return &Bundle{NeedsNode: r.needsNode}, nil
	}
	return b, failure
}

// build makes a bundle.
func (r *resolver) build(files map[string]string, main, entry string, local bool) (*Bundle, *bridge.Failure) {
	o := api.BuildOptions{
		EntryPoints: []string{main}, Bundle: true, Format: api.FormatESModule, Platform: api.PlatformNeutral, Target: api.ESNext,
		Sourcemap: api.SourceMapExternal, Outfile: "/bundle.js", AbsWorkingDir: "/", LogLevel: api.LogLevelSilent, Charset: api.CharsetUTF8,
		LegalComments: api.LegalCommentsNone, Plugins: []api.Plugin{{Name: "tool", Setup: func(b api.PluginBuild) {
			if r.starExports != nil {
				r.starExports.recordImports(b)
			}
			setupResolver(b, r, files, main, entry, local)
			r.setup(b)
		}}},
	}
	r.options(&o)
	result := api.Build(o)
	if len(result.Errors) > 0 {
		return nil, bundleFailure(files, main, result.Errors[0])
	}
	b := &Bundle{NeedsNode: r.needsNode, Externals: r.externals}
	opening := r.prologue()
	b.prefixLen = len(opening)
	for _, out := range result.OutputFiles {
		if strings.HasSuffix(out.Path, ".map") {
			var err error
			if b.sources, err = sourcemap.Parse("", out.Contents); err != nil {
				return nil, &bridge.Failure{Kind: bridge.FailSyntax, Type: "SyntaxError", Message: "its source map cannot be read: " + err.Error(), File: main}
			}
			continue
		}
		text, uses := restoreNames(out.Contents)
		if uses != "" && b.NeedsNode == "" {
			b.NeedsNode = uses
		}
		b.Source = opening + text
		for _, found := range requireCall().FindAllStringSubmatch(text, -1) {
			if !slices.Contains(b.Builtins, found[1]) {
				b.Builtins = append(b.Builtins, found[1])
			}
		}
	}
	b.lines = strings.Count(b.Source, "\n")
	return b, nil
}

// MapPosition maps a position in a program that begins with Source to one in the files.
func (b *Bundle) MapPosition(line, column int) (file string, fromLine, fromColumn int, ok bool) {
	if line < 1 || line > b.lines {
		return "", 0, 0, false
	}
	if line == 1 {
		column -= b.prefixLen
	}
	source, _, fromLine, fromColumn, ok := b.sources.Source(line, max(column-1, 0))
	name, found := strings.CutPrefix(source, toolNamespace+":")
	return name, fromLine, fromColumn + 1, ok && found
}

// strictPrefix begins the first line, because the text of a module is strict.
const strictPrefix = `"use strict";`

const (
	toolNamespace  = "tool" // namespace of the tool's files
	apiNamespace   = "toolroom"
	entryNamespace = "entry" // of the text that sets the variable Entry
)

var loaders = map[string]api.Loader{
	".js": api.LoaderJS, ".mjs": api.LoaderJS, ".ts": api.LoaderTS, ".mts": api.LoaderTS, ".json": api.LoaderJSON, ".txt": api.LoaderText, ".md": api.LoaderText,
}

// setupResolver makes esbuild resolve imports to the tool's files and packages only.
func setupResolver(b api.PluginBuild, r *resolver, files map[string]string, main, entry string, local bool) {
	b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		switch {
		case a.Kind == api.ResolveEntryPoint:
			return api.OnResolveResult{Path: main, Namespace: entryNamespace}, nil
		case a.Namespace == entryNamespace:
			return api.OnResolveResult{Path: main, Namespace: toolNamespace}, nil
		case a.Path == "toolroom":
			return api.OnResolveResult{Path: a.Path, Namespace: apiNamespace}, nil
		case a.Namespace != toolNamespace || !strings.HasPrefix(a.Path, "."):
			return r.resolve(a)
		}
		name := pathpkg.Join(pathpkg.Dir(a.Importer), a.Path)
		stem := strings.TrimSuffix(strings.TrimSuffix(name, ".js"), ".mjs")
		for _, candidate := range []string{name, name + ".ts", name + ".mts", name + ".js", name + ".mjs", name + ".json", stem + ".ts", stem + ".mts", name + "/index.ts", name + "/index.js"} {
			if _, ok := files[candidate]; ok {
				return api.OnResolveResult{Path: candidate, Namespace: toolNamespace}, nil
			}
		}
		return r.importError(fmt.Errorf("there is no file %s", name))
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: entryNamespace}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		text := "import {" + entry + " as entry} from 'main'\nglobalThis." + Entry + " = entry\n"
		return api.OnLoadResult{Contents: &text, Loader: api.LoaderJS}, nil
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: apiNamespace}, func(api.OnLoadArgs) (api.OnLoadResult, error) {
		text := "export const {Image, Handle, ToolError, tool} = globalThis." + moduleAPI
		return api.OnLoadResult{Contents: &text, Loader: api.LoaderJS}, nil
	})
	b.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: toolNamespace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		text := files[a.Path]
		if a.Path == main && local {
			text += "\nexport {" + entry + "}\n"
		}
		loader := loaders[pathpkg.Ext(a.Path)]
		if loader == api.LoaderNone {
			return api.OnLoadResult{}, fmt.Errorf("files like %s cannot be imported", a.Path)
		}
		text = r.sourceText(a, text)
		return api.OnLoadResult{Contents: &text, Loader: loader, ResolveDir: r.root}, nil
	})
}

// unresolvedImport matches esbuild's message about an import that it cannot resolve.
var unresolvedImport = pattern.Lazy(`^Could not resolve "([^"]+)"`)

func bundleFailure(files map[string]string, main string, m api.Message) *bridge.Failure {
	f := &bridge.Failure{Kind: bridge.FailSyntax, Type: "SyntaxError", Message: m.Text, File: main}
	if found := unresolvedImport().FindStringSubmatch(m.Text); found != nil {
		f.Message = fmt.Sprintf("there is no module %q: add it to dependencies", found[1])
	}
	if m.Location != nil && strings.HasPrefix(m.Location.File, toolNamespace+":") {
		f.File = strings.TrimPrefix(m.Location.File, toolNamespace+":")
		f.Line = min(m.Location.Line, strings.Count(files[f.File], "\n")+1)
		// esbuild counts columns in bytes from 0.
		f.Column = utf8.RuneCountInString(m.Location.LineText[:min(m.Location.Column, len(m.Location.LineText))]) + 1
	}
	return f
}

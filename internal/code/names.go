package code

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/pattern"
)

// view is the tools that a program is told of, by the names that it may use.
type view struct {
	tools []bridge.Tool
	// withheld are friendly names that were left out, with the reason.
	withheld bridge.Map
	// unknown are ids and namespaces in the text that no tool has.
	unknown bridge.Map
	// entries are those of tools, in their order.
	entries []*catalog.Entry
}

var word = pattern.Lazy(`[\pL_$][\pL\pN_$]*`)

// viewFor picks the visible tools whose namespace the program mentions, so that
// thousands of others cost nothing. The rest stay callable through call_tool
// and through tools[...].
func viewFor(language, source string, inputs bridge.Map, entries []*catalog.Entry) (view, error) {
	words := map[string]bool{}
	for _, w := range word().FindAllString(source, -1) {
		words[w] = true
	}
	byPath := map[string][]*catalog.Entry{}
	var paths []string
	namespaces := map[string][]string{} // identifier → namespaces that would have it
	for _, e := range entries {
		ns := identifier(e.Tool.ID.Namespace)
		if !slices.Contains(namespaces[ns], e.Tool.ID.Namespace) {
			namespaces[ns] = append(namespaces[ns], e.Tool.ID.Namespace)
		}
		if !words[ns] {
			continue
		}
		path := ns + "." + identifier(e.Tool.ID.Name)
		if byPath[path] == nil {
			paths = append(paths, path)
		}
		byPath[path] = append(byPath[path], e)
	}
	for _, e := range subcommands(source, byPath) {
		path := identifier(e.Tool.ID.Namespace) + "." + identifier(e.Tool.ID.Name)
		paths, byPath[path] = append(paths, path), []*catalog.Entry{e}
	}
	slices.Sort(paths)
	taken := reserved(language)
	for name, why := range imported(language, source) {
		taken[name] = why
	}
	for _, input := range inputs {
		if why, ok := taken[input.Key]; ok {
			return view{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the input %q has the name of %s", input.Key, why).
				WithHint("give the input another name")
		}
		taken[input.Key] = "an input of this program"
	}
	var v view
	left := map[string]bool{}
	for _, path := range paths {
		ns, name, _ := strings.Cut(path, ".")
		if len(byPath[path]) > 1 { // two tools that differ only in what an identifier cannot hold
			ids := make([]string, len(byPath[path]))
			for i, e := range byPath[path] {
				ids[i] = e.ID
			}
			v.withhold(path, fmt.Sprintf("%s could be any of %s: write call_tool(%q, ...)", path, strings.Join(ids, ", "), ids[0]))
			continue
		}
		tool := describe(byPath[path][0], ns, name)
		switch why, collides := taken[ns]; {
		case collides && !left[ns]:
			left[ns] = true
			v.withhold(ns, fmt.Sprintf("%s is also %s: write tools.%s", ns, why, ns))
		case !collides:
			tool.Globals = append(tool.Globals, []string{ns, name})
		}
		v.tools, v.entries = append(v.tools, tool), append(v.entries, byPath[path][0])
	}
	return v, nil
}

func (v *view) withhold(name, why string) {
	v.withheld = append(v.withheld, bridge.Member{Key: name, Value: why})
}

func describe(e *catalog.Entry, ns, name string) bridge.Tool {
	t := bridge.Tool{ID: e.ID, Path: []string{ns, name}, Kind: string(e.Tool.Source), Doc: catalog.Shorten(e.Tool.Description, 120)}
	t.Parameters, t.Open = parameters(e.Tool.InputSchema)
	switch e.Tool.Source {
	case toolroom.SourceMCP:
		t.Globals = [][]string{{"mcp", ns, name}}
	case toolroom.SourceCLI:
		t.Globals = [][]string{{"cli", ns, name}}
	}
	return t
}

// identifier is a name as programs can write it: what is no letter, digit or
// underscore becomes an underscore.
func identifier(name string) string {
	id := strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if id != "" && id[0] >= '0' && id[0] <= '9' {
		id = "_" + id
	}
	return id
}

// ours are the names that every program has from us.
var ours = []string{
	"tools", "mcp", "cli", "call_tool", "run", "search_tools", "describe_tool", "run_chain", "artifacts", "results",
	"progress", "log", "print", "ToolError", "Handle",
}

// pythonNames are the builtins and keywords of Python 3.14.
const pythonNames = `False None True and as assert async await break case class continue def del elif else except finally for from global if
import in is lambda match nonlocal not or pass raise return try type while with yield
abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright credits delattr dict dir
divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter
len license list locals map max memoryview min next object oct open ord pow property quit range repr reversed round set setattr slice sorted
staticmethod str sum super tuple vars zip`

// javaScriptNames are the globals and reserved words of ECMAScript 2025.
const javaScriptNames = `arguments await break case catch class const continue debugger default delete do else enum eval export extends false
finally for function if implements import in instanceof interface let new null package private protected public return static super switch this
throw true try typeof var void while with yield async of get set undefined NaN Infinity globalThis console
Array ArrayBuffer Atomics BigInt Boolean DataView Date Error Function Intl Iterator JSON Map Math Number Object Promise Proxy Reflect RegExp Set
String Symbol WeakMap WeakRef WeakSet Uint8Array parseFloat parseInt isFinite isNaN encodeURI decodeURI escape unescape setTimeout`

func reserved(language string) map[string]string {
	names, what := pythonNames, "a builtin of Python"
	if language != "python" {
		names, what = javaScriptNames, "a builtin of JavaScript"
	}
	taken := map[string]string{}
	for _, name := range strings.Fields(names) {
		taken[name] = what
	}
	for _, name := range ours {
		taken[name] = "a function of Toolroom"
	}
	return taken
}

var pythonImport = pattern.Lazy(`(?m)^[ \t]*(?:from[ \t]+[\w.]+[ \t]+)?import[ \t]+([^#\n]+)`)

// imported are the names that a Python program imports.
func imported(language, source string) map[string]string {
	names := map[string]string{}
	if language != "python" {
		return names
	}
	for _, m := range pythonImport().FindAllStringSubmatch(source, -1) {
		for clause := range strings.SplitSeq(strings.Trim(m[1], "() \t\r"), ",") {
			fields := strings.Fields(clause)
			if len(fields) == 0 {
				continue
			}
			name, _, _ := strings.Cut(fields[len(fields)-1], ".")
			names[name] = "a module that this program imports"
		}
	}
	return names
}

// Package reserved defines the names that no source and no registered tool may have as its
// namespace. The config, imports, registration and code mode all use this one table.
package reserved

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// builtins are the namespaces of Toolroom's own tools, existing and planned. Git is not
// among them, because people give this name to their own source (see
// docs/decisions/0013-reserved-namespaces.md).
const builtins = `code system
agents browser cron file google k8s media memory message minio process sessions shell storage web`

// functions are the names that Toolroom defines in every program.
const functions = `tools mcp cli call_tool run search_tools describe_tool run_chain artifacts results progress log print
ToolError Handle`

// pythonKeywords are the words of Python 3.14 that name nothing in a program.
const pythonKeywords = `False None True and as assert async await break class continue def del elif else except finally for from global if
import in is lambda nonlocal not or pass raise return try while with yield`

// pythonBuiltins are the builtins that programs use, and the words that are keywords in some places.
const pythonBuiltins = `case match type
abs aiter all anext any ascii bin bool breakpoint bytearray bytes callable chr classmethod compile complex copyright credits delattr dict dir
divmod enumerate eval exec exit filter float format frozenset getattr globals hasattr hash help hex id input int isinstance issubclass iter
len license list locals map max memoryview min next object oct open ord pow property quit range repr reversed round set setattr slice sorted
staticmethod str sum super tuple vars zip`

// javaScriptWords are the reserved words and globals of ECMAScript 2025.
const javaScriptWords = `arguments await break case catch class const continue debugger default delete do else enum eval export extends false
finally for function if implements import in instanceof interface let new null package private protected public return static super switch this
throw true try typeof var void while with yield async of get set undefined NaN Infinity globalThis console
AggregateError Array ArrayBuffer Atomics BigInt BigInt64Array BigUint64Array Boolean DataView Date Error EvalError FinalizationRegistry
Float32Array Float64Array Function Int16Array Int32Array Int8Array Intl Iterator JSON Map Math Number Object Promise Proxy RangeError
ReferenceError Reflect RegExp Set String Symbol SyntaxError TypeError URIError Uint16Array Uint32Array Uint8Array Uint8ClampedArray
WeakMap WeakRef WeakSet WebAssembly parseFloat parseInt isFinite isNaN encodeURI encodeURIComponent decodeURI decodeURIComponent escape
unescape setTimeout clearTimeout`

// members are names that every object has in one of the languages, so tools.NAME would not
// be the namespace.
const members = `constructor prototype then toJSON`

// free are words of a language that sources may have nevertheless: no program breaks if it
// writes tools.NAME.
const free = `copyright credits license of get new`

var (
	ofBuiltins        = set(builtins)
	ofFunctions       = set(functions)
	ofFoldedFunctions = set(strings.ToLower(functions))
	ofPythonKeywords  = set(pythonKeywords)
	ofPython          = set(pythonKeywords + " " + pythonBuiltins)
	ofJavaScript      = set(javaScriptWords)
	ofMembers         = set(members)
	ofFree            = set(free)
)

func set(words string) map[string]bool {
	names := map[string]bool{}
	for _, word := range strings.Fields(words) {
		names[word] = true
	}
	return names
}

// Why reports whether no source may have the namespace name, and why. It checks the name as
// programs write it. For Toolroom's own names case does not matter.
func Why(name string) (why string, reserved bool) {
	written := Identifier(name)
	folded := strings.ToLower(written)
	switch {
	case ofBuiltins[folded]:
		return "it is kept for Toolroom's own tools", true
	case ofFoldedFunctions[folded]:
		return "programs have a function of Toolroom by that name", true
	case ofMembers[written], len(written) > 4 && strings.HasPrefix(written, "__") && strings.HasSuffix(written, "__"):
		return "every object in a program has a member of that name", true
	case ofFree[written]:
		return "", false
	case ofPython[written]:
		return "it is a word of Python, so programs could not use it", true
	case ofJavaScript[written]:
		return "it is a word of JavaScript, so programs could not use it", true
	}
	return "", false
}

// Check returns an error with code conflict if the namespace name is reserved.
func Check(name string) error {
	why, reserved := Why(name)
	if !reserved {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeConflict, "the namespace %q is reserved: %s", name, why).
		WithHint("choose another name, for example %s", Free(name))
}

// Free returns a similar name that is not reserved.
func Free(name string) string {
	const suffix = "-server"
	if _, reserved := Why(name); !reserved {
		return name
	}
	return strings.Trim(name[:min(len(name), toolroom.MaxIDPart-len(suffix))], "_") + suffix
}

// Words returns the names that a program in a language has without its tools, with a
// description of each.
func Words(language string) map[string]string {
	words, what := ofPython, "a builtin of Python"
	if language != "python" {
		words, what = ofJavaScript, "a builtin of JavaScript"
	}
	taken := map[string]string{}
	for name := range words {
		taken[name] = what
	}
	for name := range ofFunctions {
		taken[name] = "a function of Toolroom"
	}
	return taken
}

// PythonKeyword reports whether a name cannot be that of a method, parameter or variable in
// Python.
func PythonKeyword(name string) bool { return ofPythonKeywords[name] }

// Identifier returns a name as programs write it: characters other than letters, digits and
// underscores become underscores.
func Identifier(name string) string {
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

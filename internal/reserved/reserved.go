// Package reserved defines the names that no source and no registered tool may have as its
// namespace. The config, imports, registration and code mode all use this one table.
package reserved

import (
	"strings"

	"github.com/toolroom/toolroom"
)

// builtins are the namespaces of Toolroom's own tools, existing and planned. They do not
// include git, because people use this name for their own source (see
// docs/decisions/0013-reserved-namespaces.md).
const builtins = `code system
agents browser cron file google k8s media memory message minio process sessions shell storage web`

// functions are the names that Toolroom defines in every program.
const functions = `tools mcp cli call_tool run search_tools describe_tool run_chain artifacts results progress log print
ToolError Handle`

// pythonKeywords are the keywords of Python 3.14, which cannot be names in a program.
const pythonKeywords = `False None True and as assert async await break class continue def del elif else except finally for from global if
import in is lambda nonlocal not or pass raise return try while with yield`

// pythonBuiltins are the builtins that programs use, and the soft keywords.
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

// objectMembers are members that every object has in one of the languages, so tools.NAME would
// not be the namespace.
const objectMembers = `constructor prototype then toJSON`

// allowed are words of a language that sources may use nevertheless, because tools.NAME is
// valid in a program.
const allowed = `copyright credits license of get new`

var (
	builtinSet        = set(builtins)
	functionSet       = set(functions)
	foldedFunctionSet = set(strings.ToLower(functions))
	pythonKeywordSet  = set(pythonKeywords)
	pythonSet         = set(pythonKeywords + " " + pythonBuiltins)
	javaScriptSet     = set(javaScriptWords)
	objectMemberSet   = set(objectMembers)
	allowedSet        = set(allowed)
)

func set(words string) map[string]bool {
	names := map[string]bool{}
	for _, word := range strings.Fields(words) {
		names[word] = true
	}
	return names
}

// Reason reports whether the namespace name is reserved, and why. It checks the name as
// programs write it. For Toolroom's own names it ignores case.
func Reason(name string) (why string, reserved bool) {
	written := Identifier(name)
	folded := strings.ToLower(written)
	switch {
	case builtinSet[folded]:
		return "it is kept for Toolroom's own tools", true
	case foldedFunctionSet[folded]:
		return "programs have a function of Toolroom by that name", true
	case objectMemberSet[written], len(written) > 4 && strings.HasPrefix(written, "__") && strings.HasSuffix(written, "__"):
		return "every object in a program has a member of that name", true
	case allowedSet[written]:
		return "", false
	case pythonSet[written]:
		return "it is a word of Python, so programs could not use it", true
	case javaScriptSet[written]:
		return "it is a word of JavaScript, so programs could not use it", true
	}
	return "", false
}

// Check returns an error with code conflict if the namespace name is reserved.
func Check(name string) error {
	why, reserved := Reason(name)
	if !reserved {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeConflict, "the namespace %q is reserved: %s", name, why).
		WithHint("choose another name, for example %s", Alternative(name))
}

// Alternative returns name, or a similar name if name is reserved.
func Alternative(name string) string {
	const suffix = "-server"
	if _, reserved := Reason(name); !reserved {
		return name
	}
	return strings.Trim(name[:min(len(name), toolroom.MaxIDPart-len(suffix))], "_") + suffix
}

// Words returns the names that are predefined in a program of a language, apart from its tools,
// with a description of each.
func Words(language string) map[string]string {
	words, what := pythonSet, "a builtin of Python"
	if language != "python" {
		words, what = javaScriptSet, "a builtin of JavaScript"
	}
	taken := map[string]string{}
	for name := range words {
		taken[name] = what
	}
	for name := range functionSet {
		taken[name] = "a function of Toolroom"
	}
	return taken
}

// PythonKeyword reports whether a name cannot be a method, parameter or variable in Python.
func PythonKeyword(name string) bool { return pythonKeywordSet[name] }

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

package stub

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/reserved"
)

//go:embed surface.py
var surfacePython string

// PythonAnswer is the type of a call's result in a program that awaits.
const PythonAnswer = "Answer"

// PythonPath returns the path below tools for a name that the type checker builds from
// the class of a namespace in [Python] and a method, such as github.delete for
// _github.delete.
func PythonPath(method string) string { return strings.TrimPrefix(method, "_") }

// Python returns a module of stubs of the tools and the built-in functions. If awaits
// is set, calls return values to await, else plain values. People read the module, and
// programs are checked with it.
func Python(tools []Tool, awaits bool) string {
	p := &python{awaits: awaits}
	var spacesText strings.Builder
	groups := groupByNamespace(tools)
	for _, group := range groups {
		fmt.Fprintf(&spacesText, "\nclass _%s:\n", group[0].Namespace)
		if group[0].Command {
			p.writeProgramCall(&spacesText)
		}
		for _, tool := range group {
			p.writeTool(&spacesText, tool)
		}
	}
	var b strings.Builder
	b.WriteString(p.builtins())
	b.WriteString(p.types.String())
	b.WriteString(spacesText.String())
	b.WriteString("\nclass _Tools:\n    def __getitem__(self, namespace: str) -> Any: ...\n")
	for _, group := range groups {
		if !reserved.PythonKeyword(group[0].Namespace) {
			fmt.Fprintf(&b, "    %s: _%[1]s\n", group[0].Namespace)
		}
	}
	b.WriteString("\ntools: _Tools\n")
	for _, root := range roots {
		fmt.Fprintf(&b, "\n\nclass %s:\n", root.class)
		if root.name == "cli" {
			b.WriteString("    def __call__(self, program: str) -> Any: ...\n")
		}
		b.WriteString("    def __getitem__(self, namespace: str) -> Any: ...\n")
		for _, group := range groups {
			if root.has(group[0]) && !reserved.PythonKeyword(group[0].Namespace) {
				fmt.Fprintf(&b, "    %s: _%[1]s\n", group[0].Namespace)
			}
		}
		fmt.Fprintf(&b, "\n%s: %s\n", root.name, root.class)
	}
	for _, group := range groups {
		if group[0].Global && !reserved.PythonKeyword(group[0].Namespace) {
			fmt.Fprintf(&b, "%s: _%[1]s\n", group[0].Namespace)
		}
	}
	return b.String()
}

// python collects the types that need a name.
type python struct {
	types  strings.Builder
	awaits bool
}

// builtins returns the stubs of the built-in functions. Those that call Toolroom
// return their results like tools.
func (p *python) builtins() string {
	if !p.awaits {
		return strings.ReplaceAll(strings.ReplaceAll(surfacePython, "«", ""), "»", "")
	}
	return strings.ReplaceAll(strings.ReplaceAll(surfacePython, "«", PythonAnswer+"["), "»", "]") + answerPython
}

const answerPython = `

_T = TypeVar("_T", covariant=True)


class ` + PythonAnswer + `(Generic[_T]):
    """The answer of a call: await it."""

    def __await__(self) -> Generator[Any, Any, _T]: ...
`

var pythonName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// writeProgramCall writes how the program itself is called.
func (p *python) writeProgramCall(b *strings.Builder) {
	result := "Command"
	if p.awaits {
		result = PythonAnswer + "[" + result + "]"
	}
	fmt.Fprintf(b, "    def __call__(self, *words: Any, **options: Any) -> %s: ...\n", result)
}

func (p *python) writeTool(b *strings.Builder, t Tool) {
	if reserved.PythonKeyword(t.Name) {
		fmt.Fprintf(b, "    # %s is a keyword: tools[%q][%q](...)\n    pass\n", t.Name, t.Namespace, t.Name)
		return
	}
	name := "_" + t.Namespace + "_" + t.Name
	result := "Command"
	if !t.Command {
		result = p.typeExpr(readSchema(t.Output), name+"_result")
	}
	if p.awaits {
		result = PythonAnswer + "[" + result + "]"
	}
	fmt.Fprintf(b, "    def %s(self, %s) -> %s:\n", t.Name, p.parameters(t, name), result)
	lines := docLines(t)
	switch len(lines) {
	case 0:
		b.WriteString("        ...\n\n")
		return
	case 1:
		fmt.Fprintf(b, "        \"\"\"%s\"\"\"\n\n", escapeDocstring(lines[0]))
		return
	}
	for i, line := range lines {
		if i == 0 {
			line = `"""` + escapeDocstring(line)
		} else {
			line = escapeDocstring(line)
		}
		b.WriteString(strings.TrimRight("        "+line, " ") + "\n")
	}
	b.WriteString("        \"\"\"\n\n")
}

func (p *python) parameters(t Tool, name string) string {
	if t.Command {
		return "*words: Any, **options: Any"
	}
	input := readSchema(t.Input)
	if len(input.fields) == 0 {
		return "*words: Any, **values: Any"
	}
	var required, optional []string
	for _, f := range input.fields {
		if !pythonName.MatchString(f.name) || reserved.PythonKeyword(f.name) || f.name == "self" {
			return "values: " + p.typeExpr(input, name+"_values") + " | Any = ..., *words: Any, **more: Any" // in order, or by name if Python can
		}
		text := f.name + ": " + p.typeExpr(f.kind, name+"_"+f.name)
		if f.required {
			required = append(required, text)
		} else {
			optional = append(optional, text+" = ...")
		}
	}
	return strings.Join(append(required, optional...), ", ")
}

// escapeDocstring returns text for use within """.
func escapeDocstring(text string) string {
	text = strings.ReplaceAll(text, `\`, `\\`)
	return strings.ReplaceAll(text, `"`, `\"`)
}

func (p *python) typeExpr(k kind, name string) string {
	each := func(list []kind) []string {
		texts := make([]string, len(list))
		for i, one := range list {
			texts[i] = p.typeExpr(one, fmt.Sprintf("%s_%d", name, i+1))
		}
		return texts
	}
	switch {
	case len(k.literals) > 0:
		return pythonLiterals(k.literals)
	case len(k.union) > 0:
		return joinDistinct(each(k.union), " | ")
	case len(k.all) > 0:
		return "dict[str, Any]" // Python has no intersections
	case k.simple != "":
		return map[string]string{"string": "str", "number": "float", "integer": "int", "boolean": "bool", "null": "None"}[k.simple]
	case k.items != nil:
		return "list[" + p.typeExpr(*k.items, name+"_item") + "]"
	case len(k.tuple) > 0:
		return "list[" + joinDistinct(each(k.tuple), " | ") + "]"
	case k.values != nil:
		return "dict[str, " + p.typeExpr(*k.values, name+"_value") + "]"
	case len(k.fields) > 0:
		return p.declareDict(k, name)
	case k.object:
		return "dict[str, Any]"
	}
	return "Any"
}

// declareDict declares a named type, with a call because that allows keys of any form.
func (p *python) declareDict(k kind, name string) string {
	fields := make([]string, len(k.fields))
	for i, f := range k.fields {
		within := fmt.Sprint(i + 1)
		if pythonName.MatchString(f.name) {
			within = f.name
		}
		text := p.typeExpr(f.kind, name+"_"+within)
		if !f.required {
			text = "NotRequired[" + text + "]"
		}
		fields[i] = fmt.Sprintf("    %s: %s,\n", literal(f.name), text)
	}
	fmt.Fprintf(&p.types, "\n%s = TypedDict(%q, {\n%s})\n", name, name, strings.Join(fields, ""))
	return name
}

func pythonLiterals(list []bridge.Value) string {
	var texts []string
	floats := false
	for _, v := range list {
		switch v := v.(type) {
		case nil:
			texts = append(texts, "None")
		case bool:
			texts = append(texts, map[bool]string{true: "True", false: "False"}[v])
		case float64: // no literal type in Python
			floats = true
		default:
			texts = append(texts, literal(v))
		}
	}
	if floats && len(texts) == 0 {
		return "float"
	}
	text := "Literal[" + strings.Join(texts, ", ") + "]"
	if floats {
		text += " | float"
	}
	return text
}

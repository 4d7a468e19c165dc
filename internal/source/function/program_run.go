package function

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/pattern"
)

// ProgramRun is a run of a program in code mode, from which File makes a function.
type ProgramRun struct {
	// Name and Description are those of the function.
	Name, Description string
	Language, Code    string
	// Inputs are the inputs of the program, which become parameters. Literals are constants in
	// its text, as JSON, that become parameters of the given names.
	Inputs   map[string]json.RawMessage
	Literals map[string]json.RawMessage
	// Namespaces are those of the tools that it called, and Effects describes the effects of
	// the calls.
	Namespaces []string
	Effects    []string
	ReadOnly   bool
	Egress     []string
}

var identifier = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// File returns the name and the text of the function's file, and the arguments with which the
// function does what the program did. Errors have code invalid_arguments or unsupported.
func (r *ProgramRun) File() (name, text string, arguments json.RawMessage, err error) {
	if !identifier().MatchString(r.Name) {
		return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not the name of a function", r.Name).WithHint("use letters, digits and _")
	}
	python := r.Language == "python"
	if !python && !isJavaScript(r.Language) {
		return "", "", nil, toolroom.Errorf(toolroom.CodeUnsupported, "a program in %s cannot become a function", r.Language).WithHint("programs in Python, JavaScript and TypeScript can")
	}
	for _, name := range []string{"search_tools", "describe_tool"} {
		if usesName(r.Code, name) {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the program uses %s, which functions do not have", name).WithHint("run it again without, then propose that run")
		}
	}
	values := maps.Clone(r.Inputs)
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	code := r.Code
	for _, name := range slices.Sorted(maps.Keys(r.Literals)) {
		if _, taken := values[name]; taken {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the program has an input %s already", name)
		}
		literal := r.Literals[name]
		if !json.Valid(literal) || string(literal) == `""` {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the constant for the parameter %s is empty or not JSON", name)
		}
		if !identifier().MatchString(name) {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q cannot be a parameter", name)
		}
		if rebindsName(code, name, literal, python) {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the program has a variable %s of its own", name).
				WithHint("choose another name for the parameter")
		}
		n := 0
		if code, n = replaceLiteral(code, r.Literals[name], name, python); n == 0 {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the program has no constant %s for the parameter %s", r.Literals[name], name).
				WithHint("name a number or a whole text of the program, as JSON")
		}
		values[name] = r.Literals[name]
	}
	for name := range values {
		if !identifier().MatchString(name) || name == "context" {
			return "", "", nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q cannot be a parameter", name)
		}
	}
	if arguments, err = json.Marshal(values); err != nil {
		return "", "", nil, err
	}
	if python {
		return r.Name + ".py", r.pythonFile(code, values), arguments, nil
	}
	return r.Name + ".ts", r.scriptFile(code, values), arguments, nil
}

// rebindsName reports whether code binds a name so that it cannot become a parameter. The only
// binding that can is a single one, on its own line at the top level, to the constant that the
// parameter replaces. Names of arguments, members and properties are not bindings.
func rebindsName(code, name string, literal json.RawMessage, python bool) bool {
	depth, bound := 0, 0
	before := ""
	for rest := code; rest != ""; {
		token := nextToken(rest, before, python)
		rest = rest[len(token):]
		switch token {
		case "(", "[":
			depth++
		case ")", "]":
			depth--
		case name:
			if bindingWords[before] || (depth == 0 || !python) && assignment().MatchString(rest) {
				bound++
			}
		}
		if strings.TrimSpace(token) != "" {
			before = token
		}
	}
	if bound == 0 {
		return false
	}
	set := regexp.MustCompile(`(?m)^(?:(?:const|let|var)[ \t]+)?` + name + `[ \t]*(?::[^=\n]*)?=[ \t]*(.*?)[ \t]*;?[ \t]*$`).FindStringSubmatch(code)
	if bound > 1 || set == nil {
		return true
	}
	value, _ := replaceLiteral(set[1], literal, name, python)
	return value != name
}

// bindingWords are the words after which a name is bound in Python or JavaScript.
var bindingWords = map[string]bool{
	"for": true, "as": true, "lambda": true, "global": true, "nonlocal": true, "del": true, "def": true, "import": true,
	"const": true, "let": true, "var": true, "function": true, "class": true, "++": true, "--": true,
}

// assignment matches the text after a name that is assigned to.
var assignment = pattern.Lazy(`^[ \t]*(:[^=\n(){}]*)?([-+*/%&|^@?<>]*=([^=>]|$)|\+\+|--|=>)`)

// usesName reports whether name is a word in code.
func usesName(code, name string) bool {
	return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(code)
}

// replaceLiteral replaces a constant, a number or a whole string, by a name wherever it occurs in
// code, and returns the number of replacements. It leaves longer strings, comments and names
// that contain the constant unchanged.
func replaceLiteral(code string, literal json.RawMessage, name string, python bool) (string, int) {
	spellings := []string{string(literal)}
	var text string
	isText := json.Unmarshal(literal, &text) == nil
	if isText && !strings.ContainsAny(text, "\\`\n") && !strings.Contains(text, "${") { // otherwise these spellings have another value
		spellings = append(spellings, "'"+text+"'", `"`+text+`"`)
		if !python {
			spellings = append(spellings, "`"+text+"`")
		}
	}
	var b strings.Builder
	n, before := 0, "" // before is the previous token that is not space
	for rest := code; rest != ""; {
		token := nextToken(rest, before, python)
		// A minus after a value is an operator: 5 -1 is a difference.
		signed := literal[0] == '-' && before != "" && before != "return" && !strings.Contains(valuePrefixes, before)
		if !isText && !signed && strings.HasPrefix(rest, spellings[0]) && !inWord(code, len(code)-len(rest)-1) && !inWord(rest, len(spellings[0])) {
			token = spellings[0]
		}
		rest = rest[len(token):]
		switch {
		case !slices.Contains(spellings, token), isText && strings.HasPrefix(strings.TrimSpace(rest), "("): // the name of a method
			b.WriteString(token)
		case !python && (before == "{" || before == ",") && strings.HasPrefix(strings.TrimSpace(rest), ":"):
			b.WriteString("[" + name + "]") // the key of an object
			n++
		default:
			b.WriteString(name)
			n++
		}
		if strings.TrimSpace(token) != "" {
			before = token
		}
	}
	if python || n == 0 {
		return b.String(), n
	}
	// Remove a declaration that would now assign the parameter to itself.
	itself := regexp.MustCompile(`(?m)^[ \t]*(const|let|var)[ \t]+` + name + `[ \t]*(:[^=\n]*)?=[ \t]*` + name + `[ \t]*;?[ \t]*(\n|$)`)
	return itself.ReplaceAllString(b.String(), ""), n
}

var (
	pythonToken = pattern.Lazy(`(?s)^(#[^\n]*|\w*"""(\\.|[^\\])*?("""|$)|\w*'''(\\.|[^\\])*?('''|$)|\w*"(\\.|[^"\\\n])*"?|\w*'(\\.|[^'\\\n])*'?|[\w.]+|.)`)
	scriptToken = pattern.Lazy(`(?s)^(//[^\n]*|/\*.*?(\*/|$)|"(\\.|[^"\\\n])*"?|'(\\.|[^'\\\n])*'?|[\w.$]+|.)`)
	// scriptRegexp matches a regular expression literal. It must only be used where one can
	// begin.
	scriptRegexp = pattern.Lazy(`^/(\\.|\[(\\.|[^\]\\\n])*\]|[^/*\\\n\[])(\\.|\[(\\.|[^\]\\\n])*\]|[^/\\\n\[])*/\w*`)
)

// inWord reports whether the byte of code at i belongs to a name or a number.
func inWord(code string, i int) bool {
	if i < 0 || i >= len(code) {
		return false
	}
	c := code[i]
	return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// valuePrefixes are the characters after which a value begins.
const valuePrefixes = "(,=:[!&|?{};+-*/%<>^~"

// nextToken returns the first token of code: a string, comment, word or character. before is
// the previous token.
func nextToken(code, before string, python bool) string {
	if python {
		return pythonToken().FindString(code)
	}
	if code[0] == '`' {
		return code[:templateEnd(code)]
	}
	if before == "" || before == "return" || strings.Contains(valuePrefixes, before) {
		if found := scriptRegexp().FindString(code); found != "" {
			return found
		}
	}
	return scriptToken().FindString(code)
}

// templateEnd returns the length of the template literal at the beginning of code.
func templateEnd(code string) int {
	depth := 0
	for i := 1; i < len(code); i++ {
		switch {
		case code[i] == '\\':
			i++
		case code[i] == '`' && depth == 0:
			return i + 1
		case code[i] == '`':
			i += templateEnd(code[i:]) - 1
		case code[i] == '{' && (depth > 0 || code[i-1] == '$'):
			depth++
		case code[i] == '}' && depth > 0:
			depth--
		}
	}
	return len(code)
}

// headerFields returns the fields of the file's header. The file always begins with a header,
// so that a header within the program has no effect.
func (r *ProgramRun) headerFields() [][2]string {
	lines := [][2]string{{"read_only", strconv.FormatBool(r.ReadOnly)}}
	if len(r.Egress) > 0 {
		hosts, _ := json.Marshal(r.Egress) // texts can always be encoded
		lines = append(lines, [2]string{"egress", string(hosts)})
	}
	return lines
}

// pythonFile returns the text of the function in Python.
func (r *ProgramRun) pythonFile(code string, values map[string]json.RawMessage) string {
	var b strings.Builder
	b.WriteString("# /// script\n# [tool.toolroom]\n")
	for _, field := range r.headerFields() {
		b.WriteString("# " + field[0] + " = " + field[1] + "\n")
	}
	b.WriteString("# ///\n")
	for _, seen := range r.Effects {
		fmt.Fprintf(&b, "# Seen when it ran: %s\n", oneLine(seen))
	}
	var parameters []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parameters = append(parameters, name+": "+pythonType(values[name]))
	}
	word := "def"
	if usesName(code, "await") {
		word = "async def"
	}
	fmt.Fprintf(&b, "%s %s(%s):\n", word, r.Name, strings.Join(append(parameters, "context"), ", "))
	description, _ := json.Marshal(r.Description)
	fmt.Fprintf(&b, "    %s\n", description)
	for _, name := range []string{"tools", "call_tool"} {
		if usesName(code, name) {
			fmt.Fprintf(&b, "    %s = context.%s\n", name, name)
		}
	}
	for _, namespace := range r.Namespaces {
		if identifier().MatchString(namespace) && usesName(code, namespace) {
			fmt.Fprintf(&b, "    %s = context.tools.%s\n", namespace, namespace)
		}
	}
	b.WriteString(indentPython(code))
	return b.String()
}

// scriptFile returns the text of the function in TypeScript.
func (r *ProgramRun) scriptFile(code string, values map[string]json.RawMessage) string {
	var b strings.Builder
	b.WriteString("import type { Context } from \"toolroom\";\n\n")
	b.WriteString("/*\n * toolroom:\n")
	for _, field := range r.headerFields() {
		b.WriteString(" *   " + field[0] + ": " + field[1] + "\n")
	}
	b.WriteString(" */\n")
	for _, seen := range r.Effects {
		fmt.Fprintf(&b, "// Seen when it ran: %s\n", oneLine(seen))
	}
	fmt.Fprintf(&b, "/**\n * %s\n */\n", strings.ReplaceAll(oneLine(r.Description), "*/", "* /"))
	var parameters []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parameters = append(parameters, name+": "+scriptType(values[name]))
	}
	fmt.Fprintf(&b, "export async function %s(%s) {\n", r.Name, strings.Join(append(parameters, "context: Context"), ", "))
	for _, name := range []string{"tools", "callTool"} {
		if usesName(code, name) {
			fmt.Fprintf(&b, "const %s = context.%s;\n", name, name)
		}
	}
	if usesName(code, "call_tool") {
		b.WriteString("const call_tool = context.callTool;\n")
	}
	for _, namespace := range r.Namespaces {
		if identifier().MatchString(namespace) && usesName(code, namespace) {
			fmt.Fprintf(&b, "const %s = context.tools.%s;\n", namespace, namespace)
		}
	}
	b.WriteString(strings.TrimRight(code, "\n") + "\n}\n")
	return b.String()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// pythonType returns the type hint of a JSON value.
func pythonType(value json.RawMessage) string {
	switch v := decodeJSON(value).(type) {
	case bool:
		return "bool"
	case string:
		return "str"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "float"
		}
		return "int"
	case []any:
		if kind := elementType(v, pythonType); kind != "" {
			return "list[" + kind + "]"
		}
		return "list"
	case map[string]any:
		return "dict"
	}
	return "object"
}

// scriptType returns the type of a JSON value in TypeScript.
func scriptType(value json.RawMessage) string {
	switch v := decodeJSON(value).(type) {
	case bool:
		return "boolean"
	case string:
		return "string"
	case json.Number:
		return "number"
	case []any:
		if kind := elementType(v, scriptType); kind != "" {
			return kind + "[]"
		}
		return "unknown[]"
	case map[string]any:
		return "Record<string, unknown>"
	}
	return "unknown"
}

func decodeJSON(value json.RawMessage) any {
	v, err := jsonx.Decode(value, jsonx.Limits{})
	if err != nil {
		return nil
	}
	return v
}

// elementType returns the type of all elements of a list, or "" if they differ.
func elementType(list []any, typeOf func(json.RawMessage) string) string {
	kind := ""
	for _, one := range list {
		text, err := json.Marshal(one)
		if err != nil {
			return ""
		}
		if is := typeOf(text); kind == "" {
			kind = is
		} else if kind != is {
			return ""
		}
	}
	return kind
}

// indentPython indents a program as the body of a function and returns its last expression.
// Lines within strings with three quotes stay unchanged.
func indentPython(code string) string {
	lines := strings.Split(strings.TrimRight(code, "\n \t"), "\n")
	inside := insideMultilineText(lines)
	last := -1
	for i, line := range lines {
		if line != "" && !inside[i] && !strings.HasPrefix(line, "#") && !strings.ContainsAny(line[:1], " \t)]}") {
			last = i
		}
	}
	var b strings.Builder
	for i, line := range lines {
		switch {
		case inside[i] || strings.TrimSpace(line) == "":
			b.WriteString(line + "\n")
		case i == last && isExpression(line):
			b.WriteString("    return " + line + "\n")
		default:
			b.WriteString("    " + line + "\n")
		}
	}
	return b.String()
}

var pythonStatement = pattern.Lazy(`^(if|for|while|def|class|import|from|return|try|except|finally|else|elif|with|raise|pass|del|global|nonlocal|assert|async|break|continue|match|@)\b|^@`)

var pythonAssignment = pattern.Lazy(`^[\w.\[\]'", ()*]+(\s*:\s*[\w.\[\], ]+)?\s*([+\-*/%&|^@]|//|\*\*|<<|>>)?=[^=]`)

// isExpression reports whether a line at the top level of a program begins an expression.
func isExpression(line string) bool {
	return !pythonStatement().MatchString(line) && !pythonAssignment().MatchString(line)
}

// insideMultilineText reports which lines begin within a string with three quotes.
func insideMultilineText(lines []string) []bool {
	inside := make([]bool, len(lines))
	open := ""
	for n, line := range lines {
		inside[n] = open != ""
		for i := 0; i < len(line); i++ {
			rest := line[i:]
			switch {
			case open != "" && rest[0] == '\\':
				i++
			case open != "" && strings.HasPrefix(rest, open):
				i += len(open) - 1
				open = ""
			case open != "":
			case rest[0] == '#':
				i = len(line)
			case strings.HasPrefix(rest, `"""`), strings.HasPrefix(rest, "'''"):
				open = rest[:3]
				i += 2
			case rest[0] == '"' || rest[0] == '\'':
				open = rest[:1]
			}
		}
		if len(open) == 1 {
			open = "" // a string with one quote ends with its line
		}
	}
	return inside
}

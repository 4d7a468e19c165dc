package stub

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

//go:embed surface.d.ts
var surfaceTypeScript string

// TypeScript returns a declaration file of the tools and the built-in functions.
func TypeScript(tools []Tool) string {
	var b strings.Builder
	b.WriteString(surfaceTypeScript)
	b.WriteString("\ndeclare const tools: {\n")
	groups := groupByNamespace(tools)
	for _, group := range groups {
		fmt.Fprintf(&b, "  readonly %s: {\n", group[0].Namespace)
		for _, tool := range group {
			writeComment(&b, "    ", docLines(tool))
			fmt.Fprintf(&b, "    %s%s;\n", tool.Name, signature(tool))
		}
		b.WriteString("  };\n")
	}
	b.WriteString("};\n")
	for _, root := range roots {
		fmt.Fprintf(&b, "declare const %s: {\n", root.name)
		if root.name == "cli" {
			b.WriteString("  (program: string): Record<string, (...words: (string | number | Record<string, unknown>)[]) => Command<unknown>>;\n")
		}
		for _, group := range groups {
			if root.has(group[0]) {
				fmt.Fprintf(&b, "  readonly %s: typeof tools.%[1]s;\n", group[0].Namespace)
			}
		}
		b.WriteString("};\n")
	}
	for _, group := range groups {
		if group[0].Global {
			fmt.Fprintf(&b, "declare const %s: typeof tools.%[1]s;\n", group[0].Namespace)
		}
	}
	return b.String()
}

func signature(t Tool) string {
	result := typeScriptType(readSchema(t.Output), "    ")
	if t.Command {
		return "(...words: (string | number | Record<string, unknown>)[]): Command<" + result + ">"
	}
	input := readSchema(t.Input)
	if !input.object || len(input.fields) == 0 {
		return "(values?: Record<string, unknown>): Promise<" + result + ">"
	}
	mark := "?"
	if slices.ContainsFunc(input.fields, func(f field) bool { return f.required }) {
		mark = ""
	}
	return fmt.Sprintf("(values%s: %s): Promise<%s>", mark, typeScriptType(input, "    "), result)
}

func writeComment(b *strings.Builder, indent string, lines []string) {
	switch len(lines) {
	case 0:
	case 1:
		fmt.Fprintf(b, "%s/** %s */\n", indent, escapeComment(lines[0]))
	default:
		b.WriteString(indent + "/**\n")
		for _, line := range lines {
			b.WriteString(strings.TrimRight(indent+" * "+escapeComment(line), " ") + "\n")
		}
		b.WriteString(indent + " */\n")
	}
}

func escapeComment(text string) string { return strings.ReplaceAll(text, "*/", "*\\/") }

var plainName = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

func typeScriptType(k kind, indent string) string {
	each := func(list []kind) []string {
		texts := make([]string, len(list))
		for i, one := range list {
			texts[i] = typeScriptType(one, indent)
		}
		return texts
	}
	switch {
	case len(k.literals) > 0:
		texts := make([]string, len(k.literals))
		for i, v := range k.literals {
			texts[i] = literal(v)
		}
		return joinDistinct(texts, " | ")
	case len(k.union) > 0:
		return joinDistinct(each(k.union), " | ")
	case len(k.all) > 0:
		texts := each(k.all)
		for i := range texts {
			texts[i] = "(" + texts[i] + ")"
		}
		return joinDistinct(texts, " & ")
	case k.simple == "integer":
		return "number"
	case k.simple != "":
		return k.simple
	case k.items != nil:
		return "Array<" + typeScriptType(*k.items, indent) + ">"
	case len(k.tuple) > 0:
		return "[" + strings.Join(each(k.tuple), ", ") + "]"
	case k.values != nil:
		return "Record<string, " + typeScriptType(*k.values, indent) + ">"
	case len(k.fields) > 0:
		return typeScriptObjectType(k, indent)
	case k.object:
		return "Record<string, unknown>"
	}
	return "unknown"
}

func typeScriptObjectType(k kind, indent string) string {
	var b strings.Builder
	b.WriteString("{\n")
	within := indent + "  "
	for _, f := range k.fields {
		if f.doc != "" {
			writeComment(&b, within, []string{strings.Join(strings.Fields(f.doc), " ")})
		}
		name := f.name
		if !plainName.MatchString(name) {
			name = literal(name)
		}
		mark := "?"
		if f.required {
			mark = ""
		}
		fmt.Fprintf(&b, "%s%s%s: %s;\n", within, name, mark, typeScriptType(f.kind, within))
	}
	b.WriteString(indent + "}")
	return b.String()
}

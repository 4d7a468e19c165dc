package function

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// commentHeader matches the first line of a header in comments: "# toolroom:", "// toolroom:" or
// "/* toolroom:". Within a block comment the line needs no mark. Keys may follow in braces.
var commentHeader = pattern.Lazy(`^[ \t]*(#|//|--|;+|%|\*|/\*+|)[ \t]*toolroom:[ \t]*(\{.*\}|)[ \t]*(?:\*/)?[ \t]*$`)

// yamlLine matches the position in an error of the YAML decoder.
var yamlLine = pattern.Lazy(`line (\d+)(?:, column \d+)?: `)

// yamlNoise removes words from the decoder's errors that mean nothing to an author.
var yamlNoise = strings.NewReplacer("yaml: construct errors: ", "", "yaml: ", "", " in type function.Manifest", "")

// readCommentHeader reads the header of a file in a language other than Python: the comment line
// "# toolroom:" and the comment lines after it that are indented further, in YAML.
func readCommentHeader(file, source string) (Manifest, error) {
	text, first := commentText(source)
	var m Manifest
	if first == 0 {
		return m, nil
	}
	if strings.TrimSpace(text) == "" {
		return m, fileError(file, first, 1, "the header has no keys", `write them in the comment's next lines, indented further than "toolroom:"`)
	}
	if err := decodeYAML(text, &m); err != nil {
		line, message := first, strings.Join(strings.Fields(err.Error()), " ")
		if at := yamlLine().FindStringSubmatch(message); at != nil {
			below, _ := strconv.Atoi(at[1]) // digits
			line, message = first+below-1, yamlLine().ReplaceAllString(message, "")
		}
		return m, fileError(file, line, 1, "the header cannot be read: "+yamlNoise.Replace(message), "see docs/tools.md for its fields")
	}
	return m, nil
}

// commentText returns the YAML of the header, and the line of source in which it begins. The
// line is 0 if there is no header.
func commentText(source string) (text string, first int) {
	var header strings.Builder
	mark, column, number := "", 0, 0
	block := false // within /* and */
	for line := range strings.Lines(source) {
		number++
		line = strings.TrimRight(line, "\r\n")
		unmarked := strings.TrimLeft(line, " \t")
		if first == 0 {
			block = block || strings.HasPrefix(unmarked, "/*")
			if found := commentHeader().FindStringSubmatch(line); found != nil && (block || found[1] != "") {
				mark, first = found[1], number
				header.WriteString(found[2] + "\n")
				if !strings.HasPrefix(mark, "/*") {
					column = strings.Index(line, "toolroom:")
				}
				if found[2] != "" || block && strings.Contains(line, "*/") {
					break
				}
			}
			block = block && !strings.Contains(line, "*/")
			continue
		}
		rest := unmarked
		if block {
			line, _, _ = strings.Cut(line, "*/")
			rest = strings.TrimPrefix(strings.TrimLeft(line, " \t"), "*")
		} else if !strings.HasPrefix(rest, mark) {
			break
		} else {
			rest = rest[len(mark):]
		}
		// All characters before the keys count as their indentation.
		if keys := strings.TrimLeft(rest, " \t"); keys != "" && len(line)-len(keys) <= column {
			break
		}
		header.WriteString(rest + "\n")
		if block && strings.Contains(unmarked, "*/") {
			break
		}
	}
	return header.String(), first
}

// Parameters are the parameters of a tool, in order.
type Parameters []Parameter

// Parameter is one parameter of a tool: its schema, or the name of its type.
type Parameter struct {
	Name     string
	Schema   map[string]any
	Optional bool
	Line     int
}

// UnmarshalYAML reads a map of parameters in its order.
func (p *Parameters) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "line %d: parameters is a map of names to types", n.Line)
	}
	*p = Parameters{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		one := Parameter{Name: n.Content[i].Value, Schema: map[string]any{}, Line: n.Content[i].Line}
		value := n.Content[i+1]
		if value.Kind == yaml.ScalarNode {
			one.Schema["type"] = value.Value
		} else if err := value.Decode(&one.Schema); err != nil {
			return err
		}
		if required, ok := one.Schema["required"].(bool); ok {
			one.Optional = !required
			delete(one.Schema, "required")
		}
		_, hasDefault := one.Schema["default"]
		one.Optional = one.Optional || hasDefault
		*p = append(*p, one)
	}
	return nil
}

package function

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
)

// comment matches the first line of a header in comments: "# toolroom:" or "// toolroom:".
var comment = regexp.MustCompile(`^([ \t]*(?:#|//|--|;+|%|\*)[ \t]?)toolroom:[ \t]*$`)

// yamlLine matches the line in an error of the YAML reader.
var yamlLine = regexp.MustCompile(`line (\d+)(?:, column \d+)?: `)

// plainYAML removes words that mean nothing to an author.
var plainYAML = strings.NewReplacer("yaml: construct errors: ", "", "yaml: ", "", " in type function.Manifest", "")

// readComment reads the header of a file in a language other than Python: the comment line
// "# toolroom:" and the comment lines after it that are indented further, in YAML.
func readComment(file, source string) (Manifest, error) {
	var text strings.Builder
	prefix, first, number := "", 0, 0
	for line := range strings.Lines(source) {
		number++
		line = strings.TrimRight(line, "\r\n")
		if prefix == "" {
			if found := comment.FindStringSubmatch(line); found != nil {
				prefix, first = found[1], number
			}
			continue
		}
		rest, ok := strings.CutPrefix(line, strings.TrimRight(prefix, " \t"))
		if !ok {
			break
		}
		rest = strings.TrimPrefix(rest, " ")
		if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			break
		}
		text.WriteString(rest + "\n")
	}
	var m Manifest
	if prefix == "" {
		return m, nil
	}
	d := yaml.NewDecoder(strings.NewReader(text.String()))
	d.KnownFields(true)
	if err := d.Decode(&m); err != nil && strings.TrimSpace(text.String()) != "" {
		line, message := first, strings.Join(strings.Fields(err.Error()), " ")
		if at := yamlLine.FindStringSubmatch(message); at != nil {
			below, _ := strconv.Atoi(at[1]) // digits
			line, message = first+below, yamlLine.ReplaceAllString(message, "")
		}
		return m, mistake(file, line, 1, "the header cannot be read: "+plainYAML.Replace(message), "see docs/tools.md for its fields")
	}
	return m, nil
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

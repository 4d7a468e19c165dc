package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/visible"
)

// outputs are the values of --output.
func outputs() []string { return []string{"json", "yaml", "wide"} }

// addOutputFlag gives -o to every command that prints JSON. json is the same as --json.
func (a *cli) addOutputFlag(c *cobra.Command) {
	for _, sub := range c.Commands() {
		a.addOutputFlag(sub)
	}
	f := c.Flags()
	if f.Lookup("json") == nil || f.Lookup("output") != nil {
		return
	}
	short := "o"
	if f.ShorthandLookup(short) != nil {
		short = ""
	}
	f.StringVarP(&a.output, "output", short, "", "output format: json, yaml or wide (tables not truncated)")
	completeValues(c, "output", outputs()...)
}

// jsonFlag adds --json.
func (a *cli) jsonFlag(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&a.asJSON, "json", false, usage)
}

// show prints a value as JSON if the command line asks for that, else by print.
func show[T any](a *cli, v T, print func(T) error) error {
	if a.asJSON {
		return a.screen.json(v)
	}
	return print(v)
}

// showList prints a list as JSON if the command line asks for that, else as a table. If the
// list is empty, it says none, unless that is empty.
func showList[T any](a *cli, list []T, none string, headers []string, row func(T) []string) error {
	if a.asJSON {
		return a.screen.json(orEmpty(list))
	}
	if len(list) == 0 && none != "" {
		a.screen.say("%s", none)
		return nil
	}
	rows := make([][]string, len(list))
	for i, one := range list {
		rows[i] = row(one)
	}
	return a.screen.table(headers, rows)
}

// chooseOutput applies -o.
func (a *cli) chooseOutput(c *cobra.Command) error {
	if c.Flags().Lookup("json") == nil || a.output == "" {
		return nil
	}
	if err := oneOf("--output", a.output, outputs()...); err != nil {
		return err
	}
	a.screen.yaml, a.screen.wide = a.output == "yaml", a.output == "wide"
	if a.output == "wide" {
		return nil
	}
	return c.Flags().Set("json", "true")
}

// asksForJSON reports whether the command line asks for JSON or YAML, even if it has a
// mistake.
func (a *cli) asksForJSON() bool {
	for i, word := range a.args {
		word, value, attached := strings.Cut(word, "=")
		if word == "--" {
			return false
		}
		if word == "--json" {
			yes, err := strconv.ParseBool(value)
			return !attached || err != nil || yes
		}
		if short, ok := strings.CutPrefix(word, "-o"); ok && !attached && short != "" { // -ojson
			word, value, attached = "-o", short, true
		}
		if !attached && i+1 < len(a.args) {
			value = a.args[i+1]
		}
		if (word == "-o" || word == "--output") && slices.Contains(outputs()[:2], value) {
			return true
		}
	}
	return false
}

// failJSON prints an error as JSON, if the command line asks for JSON and nothing has been
// printed yet. It has the members of a result.
func (a *cli) failJSON(e *toolroom.Error) {
	if a.out.written.Load() || !a.asksForJSON() {
		return
	}
	status := toolroom.StatusError
	switch e.Code {
	case toolroom.CodeDenied, toolroom.CodeApprovalDeclined:
		status = toolroom.StatusDenied
	case toolroom.CodeTimeout:
		status = toolroom.StatusTimeout
	case toolroom.CodeCancelled:
		status = toolroom.StatusCancelled
	}
	// An error means that the reader has gone away.
	_ = a.screen.json(struct {
		Status toolroom.Status `json:"status"`
		Error  *toolroom.Error `json:"error"`
	}{status, e})
}

// toYAML converts a JSON document; the order of members and the text of numbers stay. What a
// person cannot see is an escape, as in JSON.
func toYAML(document []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(node); err != nil {
		return nil, err
	}
	if err := enc.Close(); err != nil {
		return nil, err
	}
	return []byte(visible.Text(out.String())), nil
}

// yamlNode reads the next JSON value.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}, nil
	}
	switch t := token.(type) {
	case nil:
		return scalar("!!null", "null")
	case bool:
		return scalar("!!bool", strconv.FormatBool(t))
	case json.Number:
		if strings.ContainsAny(t.String(), ".eE") {
			return scalar("!!float", t.String())
		}
		return scalar("!!int", t.String())
	case string:
		return yamlText(t), nil
	}
	node := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if token == json.Delim('{') {
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
	}
	for d.More() {
		part, err := yamlNode(d) // the name of a member, too
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, part)
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err = d.Token()
	return node, err
}

// yamlText returns a text in the style that shows all of it.
func yamlText(text string) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	switch {
	case visible.Text(text) != text:
		node.Style = yaml.DoubleQuotedStyle // the only one with escapes
	case strings.Contains(text, "\n"):
		node.Style = yaml.LiteralStyle
	}
	return node
}

// asError returns err as an Error, with the hint of a usage mistake.
func asError(err error) *toolroom.Error {
	if mistake := (*usageError)(nil); errors.As(err, &mistake) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s", mistake.message).WithHint("%s", mistake.hint)
	}
	return toolroom.AsError(err)
}

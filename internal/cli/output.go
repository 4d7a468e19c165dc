package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
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
	f.StringVarP(&a.output, "output", short, "", "format of the output: json, yaml, or wide (tables uncut)")
	completeWords(c, "output", outputs()...)
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

// asksForJSON reports whether the command line asks for JSON or YAML, also if it has a
// mistake.
func (a *cli) asksForJSON() bool {
	for i, word := range a.args {
		word, value, attached := strings.Cut(word, "=")
		if word == "--" {
			return false
		}
		if word == "--json" {
			return true
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
	if a.out.written || !a.asksForJSON() {
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

// toYAML converts a JSON document; the order of members and the text of numbers stay.
func toYAML(document []byte) ([]byte, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(document, &node); err != nil {
		return nil, err
	}
	plain(&node)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&node); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// plain removes the style of JSON. Texts that would be read as something else keep quotes.
func plain(n *yaml.Node) {
	switch {
	case n.Kind != yaml.ScalarNode:
		n.Style = 0
	case n.Tag == "!!str" && strings.Contains(n.Value, "\n"):
		n.Style = yaml.LiteralStyle
	default:
		n.Style = 0
	}
	for _, part := range n.Content {
		plain(part)
	}
}

// asError returns err as an Error, with the hint of a usage mistake.
func asError(err error) *toolroom.Error {
	if mistake := (*usageError)(nil); errors.As(err, &mistake) {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s", mistake.message).WithHint("%s", mistake.hint)
	}
	return toolroom.AsError(err)
}

// compactJSON returns a document on one line.
func compactJSON(document json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, document) != nil {
		return string(document)
	}
	return b.String()
}

package run

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// maxFailureText is how much of a failed tool's output its error repeats.
const maxFailureText = 2000

// normalise makes the value and the content of the result from the source's output. Output
// without a value gets one from its content: a single text that is a JSON object or list
// becomes that JSON, any other text becomes a string, and several pieces become a list.
func (c *executedCall) normalise() error {
	out := c.output
	if out == nil {
		out = &source.Output{}
		c.output = out
	}
	c.result.Value, c.result.Content, c.result.Raw = out.Value, out.Content, out.Raw
	c.result.Usage.CPU, c.result.Usage.PeakMemory = out.CPU, out.PeakMemory
	if !utf8.Valid(out.Raw) {
		c.result.Warnings = append(c.result.Warnings, toolroom.Warning{
			Code: toolroom.CodeInvalidOutput, Message: c.tool + " sent bytes that are not UTF-8: they are read as U+FFFD",
		})
	}
	if len(out.Value) == 0 && len(out.Content) > 0 {
		value, err := contentValue(out.Content)
		if err != nil {
			return toolroom.Errorf(toolroom.CodeInvalidOutput, "the result of %s cannot be written as JSON: %w", c.tool, err)
		}
		c.result.Value = value
	}
	if c.parent != nil {
		if err := c.scope.budget.TakeBytes(len(c.result.Value)); err != nil {
			return err
		}
	}
	if !out.Failed {
		return nil
	}
	// Redact before truncating: half a secret would not be recognised.
	text := catalog.Shorten(c.runner.Secrets.Text(c.result.Text()), maxFailureText)
	if text == "" {
		text = "no reason given"
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s failed: %s", c.tool, text)
}

func contentValue(content []toolroom.Content) (json.RawMessage, error) {
	if len(content) == 1 && content[0].Type == toolroom.ContentText {
		return textValue(content[0].Text), nil
	}
	list := make([]json.RawMessage, len(content))
	for i, c := range content {
		if c.Type == toolroom.ContentText {
			list[i] = textValue(c.Text)
			continue
		}
		var err error
		if list[i], err = json.Marshal(c); err != nil {
			return nil, err
		}
	}
	return jsonx.Marshal(list)
}

// textValue returns a text as JSON: the text itself if it is a JSON object or
// list, else a string. A text such as 007 or true stays a string.
func textValue(text string) json.RawMessage {
	if trimmed := strings.TrimSpace(text); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') {
		if raw := json.RawMessage(trimmed); json.Valid(raw) {
			return raw
		}
	}
	return jsonx.AppendString(nil, text)
}

// validateOutput checks the value against the tool's output schema. The tool has run, so a
// fault of a tool that is not strict is a warning.
func (c *executedCall) validateOutput() error {
	check := c.entry.Tool.ChecksOutput()
	if check == toolroom.OutputOff {
		return nil
	}
	err := c.outputFault()
	if err == nil || check == toolroom.OutputStrict {
		return err
	}
	e := toolroom.AsError(err)
	message := e.Message
	if failure := (*schema.Failure)(nil); errors.As(err, &failure) {
		message = strings.Replace(message, failure.Error(), failure.FirstProblems(maxFaults), 1)
	}
	c.result.Warnings = append(c.result.Warnings, toolroom.Warning{Code: e.Code, Message: catalog.Shorten(message, maxWarning)})
	return nil
}

const (
	// maxFaults is how many faults of a value a warning names. There may be a hundred, and a
	// model needs to know only that there are some.
	maxFaults = 3
	// maxWarning is the maximum length of a warning, in bytes.
	maxWarning = 600
)

// outputFault returns an error if the value does not fit the tool's output schema.
func (c *executedCall) outputFault() error {
	output, err := c.entry.Output()
	if err != nil {
		return c.badSchema("output", err)
	}
	if output == nil {
		return nil
	}
	if output.Accepts(c.result.Value) {
		return nil
	}
	if err := fits(output, c.result.Value); err == nil {
		return nil
	}
	c.result.redact(c.runner.Secrets) // the error quotes the value
	e := toolroom.Errorf(toolroom.CodeInvalidOutput, "the value of %s does not fit its output schema", c.tool)
	if err := fits(output, c.result.Value); err != nil { // nil if only the secret did not fit
		e = toolroom.Errorf(toolroom.CodeInvalidOutput, "the value of %s does not fit its output schema: %w", c.tool, err)
	}
	return e.WithHint("the tool ran; its author must fix the tool or its schema")
}

func fits(output *schema.Schema, document json.RawMessage) error {
	value, err := jsonx.Decode(document, jsonx.Limits{Bytes: maxOutputDocument})
	if err != nil {
		return err
	}
	return output.Validate(value)
}

// maxOutputDocument is the largest value that is checked against a schema.
const maxOutputDocument = 64 << 20

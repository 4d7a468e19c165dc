package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/schema"
)

// arguments are forms of a call's arguments that are made on first use.
type arguments struct {
	tree      any
	canonical []byte
	hash      string
}

// validateInput returns an error if the timeout is negative, or the arguments are no JSON
// object or do not fit the tool's input schema. Missing arguments are an empty object.
func (c *resolvedCall) validateInput() error {
	if c.request.Timeout < 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the timeout %s is negative", c.request.Timeout).
			WithHint("omit it for the default")
	}
	if len(c.request.Arguments) == 0 {
		c.request.Arguments = json.RawMessage("{}")
	}
	input, err := c.entry.Input()
	if err != nil {
		return c.badSchema("input", err)
	}
	// Most arguments fit, and that can be seen without decoding them.
	if len(c.request.Arguments) <= c.runner.Limits().InputBytes && startsObject(c.request.Arguments) && accepts(input, c.request.Arguments) {
		return nil
	}
	args, err := c.decodedArguments()
	if err != nil {
		return err
	}
	if input == nil {
		return nil
	}
	if err := input.Validate(args); err != nil {
		return c.invalidArguments(input, err)
	}
	return nil
}

// accepts reports whether a document is valid JSON and fits the schema, if there is one.
func accepts(s *schema.Schema, document []byte) bool {
	if s == nil {
		return jsonx.Check(document, jsonx.Limits{}) == nil
	}
	return s.Accepts(document)
}

func startsObject(document []byte) bool {
	trimmed := bytes.TrimLeft(document, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{'
}

// decodedArguments returns the arguments as a tree. It decodes them on first use.
func (c *resolvedCall) decodedArguments() (any, error) {
	if c.arguments.tree != nil {
		return c.arguments.tree, nil
	}
	args, err := jsonx.Decode(c.request.Arguments, jsonx.Limits{Bytes: c.runner.Limits().InputBytes})
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s are not usable: %w", c.tool, err).
			WithHint("send one JSON object, for example %s", catalog.ExampleArguments(c.entry))
	}
	if _, ok := args.(map[string]any); !ok {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s must be a JSON object, not %s", c.tool, kindOf(args)).
			WithHint("for example %s", catalog.ExampleArguments(c.entry))
	}
	c.arguments.tree = args
	return args, nil
}

// badSchema returns the error for an unusable schema, which is the tool's fault, not the
// caller's.
func (c *resolvedCall) badSchema(which string, err error) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "the %s schema of %s cannot be used: %w", which, c.tool, err).
		WithHint("the tool's author must fix the schema")
}

// invalidArguments returns the error for arguments that do not fit, with a repaired call
// if there is an obvious one.
func (c *resolvedCall) invalidArguments(input *schema.Schema, err error) error {
	e := toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of %s do not fit: %w", c.tool, err)
	if failure := (*schema.Failure)(nil); errors.As(err, &failure) {
		e.Details = map[string]any{"problems": failure.Problems}
	}
	if e.Details == nil {
		return e
	}
	if repaired, dropped, ok := schema.Repair(input, c.arguments.tree); ok {
		e.Details["example"] = repaired
		if len(dropped) > 0 {
			return e.WithHint("without %s, this would be accepted: %s", strings.Join(dropped, " and "), repaired)
		}
		return e.WithHint("this would be accepted: %s", repaired)
	}
	return e.WithHint("see its input schema").WithCLIHint("toolroom describe %s", c.tool)
}

func (c *call) canonicalArguments() ([]byte, error) {
	if c.arguments.canonical == nil {
		canonical, err := jsonx.Canonical(c.request.Arguments)
		if err != nil {
			return nil, err
		}
		c.arguments.canonical = canonical
	}
	return c.arguments.canonical, nil
}

// argumentsHash returns the SHA-256, in hex, of the canonical arguments.
func (c *call) argumentsHash() string {
	if c.arguments.hash == "" {
		if canonical, err := c.canonicalArguments(); err == nil {
			c.arguments.hash = receipt.Hash(canonical)
		}
	}
	return c.arguments.hash
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	default:
		return fmt.Sprintf("a number (%v)", v)
	}
}

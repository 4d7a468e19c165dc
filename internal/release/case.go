package release

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/expression"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
)

// Case is a saved example of a call and what must come of it. With none of Expect, Schema,
// Assert and Error, the call must succeed.
type Case struct {
	Tool      string          `json:"tool,omitempty" yaml:"-"`
	Name      string          `json:"name" yaml:"name"`
	Arguments json.RawMessage `json:"arguments" yaml:"arguments"`
	// Expect is the exact value. Schema is a JSON Schema that the value must fit. Assert is
	// an Expr condition on value and arguments. Error is the code that the call fails with.
	Expect json.RawMessage `json:"expect,omitempty" yaml:"expect"`
	// ExpectHash is the SHA-256 of the exact value, in hex, of a case that was recorded from
	// a call whose value was too long to record.
	ExpectHash string          `json:"expect_hash,omitempty" yaml:"-"`
	Schema     json.RawMessage `json:"schema,omitempty" yaml:"schema"`
	Assert     string          `json:"assert,omitempty" yaml:"assert"`
	Error      toolroom.Code   `json:"error,omitempty" yaml:"error"`
	// Fakes answer the calls that the tool makes, so that nothing else runs. A call that has
	// none fails. A case without fakes makes real calls.
	Fakes []Fake `json:"fakes,omitempty" yaml:"fakes"`
	// From is the call that the case was recorded from.
	From    string    `json:"from,omitempty" yaml:"-"`
	Author  string    `json:"author,omitempty" yaml:"-"`
	Created time.Time `json:"created,omitzero" yaml:"-"`
}

// prepare returns an error if the case itself cannot be used. A case without arguments gets
// an empty object.
func (c *Case) prepare() error {
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	if c.Name == "" || len(c.Name) > toolroom.MaxIDPart {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a case needs a name of at most %d bytes", toolroom.MaxIDPart)
	}
	args, err := jsonx.Decode(c.Arguments, jsonx.Limits{})
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of case %q are not JSON: %w", c.Name, err)
	}
	if _, ok := args.(map[string]any); !ok {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments of case %q are not a JSON object", c.Name)
	}
	if len(c.Schema) > 0 {
		if _, err := schema.Compile(c.Schema, schema.Limits{}); err != nil {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "the schema of case %q: %w", c.Name, err).WithHint("write a JSON Schema")
		}
	}
	if c.Assert != "" {
		if _, err := expression.Compile(c.Assert, expression.Bool, "value", "arguments"); err != nil {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "the assertion of case %q: %w", c.Name, err).
				WithHint("write a condition on value and arguments, for example value > 3")
		}
	}
	return nil
}

// Outcome is the result of one case.
type Outcome struct {
	Tool    string        `json:"tool"`
	Case    string        `json:"case"`
	Version int           `json:"version"`
	OK      bool          `json:"ok"`
	Problem string        `json:"problem,omitempty"`
	Call    string        `json:"call,omitempty"`
	Took    time.Duration `json:"took_ns"`
}

// judge returns what is wrong with the result of a case's call, or "".
func (c *Case) judge(r *toolroom.Result) string {
	if c.Error != "" {
		switch {
		case r.Error == nil:
			return fmt.Sprintf("it succeeded, but error %s is expected", c.Error)
		case r.Error.Code != c.Error:
			return fmt.Sprintf("error %s, but %s is expected: %s", r.Error.Code, c.Error, r.Error.Message)
		}
		return ""
	}
	if r.Error != nil {
		return r.Error.Message
	}
	value := r.Value
	if len(value) == 0 {
		value, _ = json.Marshal(r.Text()) // a string can always be encoded
	}
	if len(c.Expect) > 0 && !sameJSON(c.Expect, value) {
		return fmt.Sprintf("got %s, want %s", shorten(value), shorten(c.Expect))
	}
	if c.ExpectHash != "" && hash(value) != c.ExpectHash {
		return "the value differs from the recorded one: " + shorten(value)
	}
	if len(c.Schema) > 0 {
		s, err := schema.Compile(c.Schema, schema.Limits{})
		if err != nil {
			return err.Error()
		}
		tree, err := jsonx.Decode(value, jsonx.Limits{})
		if err == nil {
			err = s.Validate(tree)
		}
		if err != nil {
			return err.Error()
		}
	}
	if c.Assert != "" {
		return c.assert(value)
	}
	return ""
}

func (c *Case) assert(value json.RawMessage) string {
	env := map[string]any{}
	for name, text := range map[string]json.RawMessage{"value": value, "arguments": c.Arguments} {
		tree, err := jsonx.Decode(text, jsonx.Limits{Bytes: len(text)})
		if err != nil {
			return err.Error()
		}
		env[name] = jsonx.Native(tree) // whole numbers keep all digits
	}
	program, err := expression.Compile(c.Assert, expression.Bool, "value", "arguments")
	if err != nil {
		return err.Error()
	}
	held, err := program.Run(context.Background(), &expression.Meter{}, env)
	switch {
	case err != nil:
		return fmt.Sprintf("the assertion %s failed: %v", c.Assert, err)
	case held != true:
		return fmt.Sprintf("the assertion %s is not true for %s", c.Assert, shorten(value))
	}
	return ""
}

// sameJSON compares two JSON texts by value; 1 and 1.0 are the same number.
func sameJSON(a, b []byte) bool {
	x, errX := jsonx.Canonical(a)
	y, errY := jsonx.Canonical(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func shorten(value []byte) string {
	const most = 200
	if len(value) > most {
		return string(value[:most]) + "…"
	}
	return string(value)
}

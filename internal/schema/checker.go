package schema

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// schemaURL is the address that a schema is compiled under. No loader serves it.
const schemaURL = "toolroom:///schema"

// A checker is a schema compiled by the validator, together with the meter that
// bounds its work. The validator gives its hooks nothing that tells one call from
// another, so a checker serves one call at a time. That costs little: the matcher
// settles most calls before, and what is left takes tens of microseconds.
type checker struct {
	root *jsonschema.Schema
	// byLocation holds every subschema that is an object by its location.
	byLocation map[string]*jsonschema.Schema
	meter      *meter
}

func newChecker(tree any, options options) (j *checker, failed *Error) {
	defer func() {
		if p := recover(); p != nil {
			j, failed = nil, panicError(p)
		}
	}()
	j = &checker{
		byLocation: map[string]*jsonschema.Schema{},
		meter:      &meter{steps: options.limits.Steps, left: math.MaxInt, deadline: time.Now().Add(options.limits.CompileTime)},
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(remotes(options.remotes))
	compiler.UseRegexpEngine(j.meter.compilePattern)
	if !options.annotateFormat {
		compiler.AssertFormat()
	}
	j.recordSubschemas(compiler)
	err := compiler.AddResource(schemaURL, tree)
	if err == nil {
		j.root, err = compiler.Compile(schemaURL)
	}
	if err != nil {
		return nil, j.compileError(err, tree)
	}
	return j, nil
}

// startCounting makes the checker ready to check. Before it, the compiled schema
// has the plain formats that a matcher may use as well.
func (c *checker) startCounting() {
	c.meter.deadline = time.Time{}
	for _, s := range c.byLocation {
		c.meter.attach(s)
		if s.PropertyNames != nil {
			s.Extensions = append(s.Extensions, memberNames{s.PropertyNames})
			s.PropertyNames = nil
		}
	}
}

// memberNames does the work of the keyword propertyNames. The validator's own
// errors about names come with a path that it overwrites later.
type memberNames struct{ schema *jsonschema.Schema }

func (m memberNames) Validate(ctx *jsonschema.ValidatorContext, v any) {
	object, _ := v.(map[string]any)
	for name := range object {
		if err, ok := ctx.Validate(m.schema, name, []string{name}).(*jsonschema.ValidationError); ok {
			ctx.AddErrors([]*jsonschema.ValidationError{err}, &kind.PropertyNames{Property: name})
		}
	}
}

// recordSubschemas makes the compiler hand over each subschema that it compiles. It uses
// the one hook that sees all of them, a vocabulary that adds no keyword; the
// fields of a compiled schema do not lead to the targets of $dynamicRef. Here,
// and at each pattern, a compilation can also be stopped.
func (c *checker) recordSubschemas(compiler *jsonschema.Compiler) {
	compiler.AssertVocabs()
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "toolroom:///vocabulary/meter",
		Compile: func(ctx *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			c.meter.checkDeadline()
			s := ctx.Enqueue(nil)
			c.byLocation[s.Location] = s
			return nil, nil
		},
	})
}

// check finds all that is wrong with a document. An error means that it could
// not tell.
func (c *checker) check(document any) (leaves []leaf, err error) {
	defer func() {
		if p := recover(); p != nil {
			leaves, err = nil, panicError(p)
		}
	}()
	c.meter.reset()
	switch err := c.root.Validate(document).(type) {
	case nil:
		return nil, nil
	case *jsonschema.ValidationError:
		return appendLeaves(nil, err, document), nil
	default:
		return nil, &Error{Kind: Internal, Reason: err.Error()}
	}
}

// panicError turns what the validator panicked with into an error: the meter's
// own, which is how it stops the validator, or a bug.
func panicError(p any) *Error {
	if stopped, ok := p.(*Error); ok {
		return stopped
	}
	return &Error{
		Kind: Internal, Reason: fmt.Sprintf("the validator failed: %v", p),
		Hint: "report this with the schema and the document",
	}
}

// remotes serves documents to a reference by URL, and refuses all others.
type remotes map[string]any

func (r remotes) Load(address string) (any, error) {
	if document, ok := r[address]; ok {
		return document, nil
	}
	return nil, fmt.Errorf("references outside the schema are not fetched")
}

// pointer returns the JSON pointer of a location inside the schema, or the
// whole location if it lies in a meta-schema.
func pointer(location string) string {
	fragment, inside := strings.CutPrefix(location, schemaURL+"#")
	if !inside {
		return location
	}
	if text, err := url.PathUnescape(fragment); err == nil {
		return text
	}
	return fragment
}

// CheckArguments returns an error if no JSON object fits the schema: then no
// tool can have it for its arguments, which are an object. It looks at the types
// and values that the schema names, and does not solve it.
func (s *Schema) CheckArguments() error {
	if refusesObjects(s.checker.root, map[*jsonschema.Schema]bool{}) {
		return errors.New(`it takes no JSON object, and arguments are one: write {"type": "object", "properties": {…}}`)
	}
	return nil
}

// refusesObjects reports whether s takes no object. Known are the answers so far: references
// may lead to one subschema in more ways than can be gone.
func refusesObjects(s *jsonschema.Schema, known map[*jsonschema.Schema]bool) (refused bool) {
	if s == nil {
		return false
	}
	if refused, seen := known[s]; seen {
		return refused
	}
	known[s] = false // should it lead back to itself
	defer func() { known[s] = refused }()
	refuses := func(s *jsonschema.Schema) bool { return refusesObjects(s, known) }
	isObject := func(v any) bool {
		_, is := v.(map[string]any)
		return is
	}
	switch {
	case s.Bool != nil && !*s.Bool,
		s.Types != nil && !s.Types.IsEmpty() && !slices.Contains(s.Types.ToStrings(), "object"),
		s.Const != nil && !isObject(*s.Const),
		s.Enum != nil && !slices.ContainsFunc(s.Enum.Values, isObject):
		return true
	}
	return refuses(s.Ref) || slices.ContainsFunc(s.AllOf, refuses) ||
		len(s.AnyOf) > 0 && !slices.ContainsFunc(s.AnyOf, func(s *jsonschema.Schema) bool { return !refuses(s) }) ||
		len(s.OneOf) > 0 && !slices.ContainsFunc(s.OneOf, func(s *jsonschema.Schema) bool { return !refuses(s) })
}

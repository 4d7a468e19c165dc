package openapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Bounds of schemas.
const (
	// maxSchemaBytes limits the schema of one tool. A larger one helps no model.
	maxSchemaBytes = 256 << 10
	// maxSchemaWork counts the values of all schemas of a document, shared ones
	// once.
	maxSchemaWork = 2_000_000
)

// schemas converts the schemas of a document to JSON Schema 2020-12. It converts the target
// of a reference once, to an entry of $defs, so that recursive schemas stay finite.
type schemas struct {
	set *Set
	// openAPI30 means that the document is OpenAPI 3.0, whose schemas differ.
	openAPI30 bool
	// unwantedMark is the mark of properties that are left out: readOnly in
	// requests, writeOnly in answers.
	unwantedMark string
	// absent are the properties that the schemas around the current one leave out of the same
	// object.
	absent  map[string]bool
	defs    map[*Node]*definition
	names   map[string]bool
	pending []*definition
	// workLeft is the remaining budget; ended is the reason to stop earlier.
	workLeft int
	ended    func() error
}

// definition is an entry of $defs.
type definition struct {
	name   string
	node   *Node
	schema any
	size   int
	uses   []*definition
}

func newSchemas(ctx context.Context, set *Set, unwanted string) *schemas {
	return &schemas{
		set:          set,
		openAPI30:    strings.HasPrefix(set.Root().Get("openapi").Text(), "3.0"),
		unwantedMark: unwanted,
		defs:         map[*Node]*definition{},
		names:        map[string]bool{},
		workLeft:     maxSchemaWork,
		ended:        ctx.Err,
	}
}

// convert returns the schema at n and adds the definitions to which it refers to uses. A nil
// n accepts anything.
func (s *schemas) convert(n *Node, uses *[]*definition) (any, error) {
	schema, err := s.schema(n, uses)
	if err != nil {
		return nil, err
	}
	for len(s.pending) > 0 {
		d := s.pending[len(s.pending)-1]
		s.pending = s.pending[:len(s.pending)-1]
		if d.schema, err = s.schema(d.node, &d.uses); err != nil {
			return nil, err
		}
		text, err := jsonx.Marshal(d.schema)
		if err != nil {
			return nil, err
		}
		d.schema, d.size = json.RawMessage(text), len(text)
	}
	return schema, nil
}

// errTooLarge means that a schema is larger than maxSchemaBytes.
var errTooLarge = fmt.Errorf("the schema is larger than %d bytes", maxSchemaBytes)

// schemaText completes schema with the definitions that it needs.
func schemaText(schema map[string]any, uses []*definition) (json.RawMessage, error) {
	defs := map[string]any{}
	size := 0
	for pending := slices.Clone(uses); len(pending) > 0; {
		d := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, known := defs[d.name]; known {
			continue
		}
		if size += d.size; size > maxSchemaBytes {
			return nil, errTooLarge
		}
		defs[d.name] = d.schema
		pending = append(pending, d.uses...)
	}
	if len(defs) > 0 {
		schema = maps.Clone(schema)
		schema["$defs"] = defs
	}
	encoded, err := jsonx.Marshal(schema)
	if err == nil && len(encoded) > maxSchemaBytes {
		err = errTooLarge
	}
	return encoded, err
}

func (s *schemas) spend() error {
	if s.workLeft--; s.workLeft < 0 {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the schemas of the document have more than %d values", maxSchemaWork).
			WithHint("select fewer operations with include")
	}
	if s.workLeft%1024 == 0 {
		return s.ended()
	}
	return nil
}

func (s *schemas) schema(n *Node, uses *[]*definition) (any, error) {
	if err := s.spend(); err != nil {
		return nil, err
	}
	switch {
	case n.False():
		return false, nil
	case n.Kind() != KindMap:
		return map[string]any{}, nil
	case n.Get("$ref").Kind() == KindText:
		return s.reference(n, uses)
	}
	out, err := s.keywords(n, uses)
	if err != nil {
		return nil, err
	}
	return s.upgradeKeywords(out, n), nil
}

func (s *schemas) reference(n *Node, uses *[]*definition) (any, error) {
	target, err := s.set.Resolve(n)
	if err != nil {
		return nil, err
	}
	d := s.define(target, n.Get("$ref").Text())
	*uses = append(*uses, d)
	out := map[string]any{}
	if !s.openAPI30 { // OpenAPI 3.0 ignores the siblings of $ref.
		if out, err = s.keywords(n, uses); err != nil {
			return nil, err
		}
	}
	out["$ref"] = "#/$defs/" + d.name
	return out, nil
}

func (s *schemas) define(target *Node, ref string) *definition {
	if d, known := s.defs[target]; known {
		return d
	}
	base := cleanName(ref[strings.LastIndexAny(ref, "/#")+1:])
	name := base
	for i := 2; s.names[name]; i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	d := &definition{name: name, node: target}
	s.defs[target], s.names[name] = d, true
	s.pending = append(s.pending, d)
	return d
}

// keywords of JSON Schema, by the kind of their values. Others are left out: x-… and those
// of OpenAPI have no meaning for a validator, and $id or $anchor would change the base of
// references.
var (
	schemaKeywords = []string{
		"not", "items", "additionalProperties", "contains", "propertyNames", "if", "then", "else",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
	schemaListKeywords = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaMapKeywords  = []string{"properties", "patternProperties", "dependentSchemas"}
	numberKeywords     = []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
	countKeywords      = []string{
		"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains",
	}
	textKeywords  = []string{"title", "description", "format", "pattern", "contentEncoding", "contentMediaType"}
	flagKeywords  = []string{"uniqueItems", "deprecated", "readOnly", "writeOnly"}
	valueKeywords = []string{"default", "const"}
	listKeywords  = []string{"enum", "examples"}
)

// keywords copies the keywords of n. It leaves out a keyword with a value of the wrong kind,
// because a validator would refuse the whole schema.
func (s *schemas) keywords(n *Node, uses *[]*definition) (map[string]any, error) {
	defer func(outer map[string]bool) { s.absent = outer }(s.absent)
	if err := s.addAbsent(n); err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := s.nested(out, n, uses); err != nil {
		return nil, err
	}
	for name, member := range n.Members() {
		var keep bool
		switch {
		case name == "type":
			keep = isType(member)
		case slices.Contains(numberKeywords, name):
			keep = member.Kind() == KindNumber
		case slices.Contains(countKeywords, name):
			number, ok := member.Number()
			keep = ok && number >= 0 && number == math.Trunc(number)
		case name == "multipleOf":
			number, ok := member.Number()
			keep = ok && number > 0
		case slices.Contains(textKeywords, name):
			keep = member.Kind() == KindText
		case slices.Contains(flagKeywords, name):
			keep = member.Kind() == KindBool
		case slices.Contains(listKeywords, name):
			keep = member.Kind() == KindList && member.Len() > 0
		case name == "required":
			keep = member.Kind() == KindList && len(member.Texts()) == member.Len()
		case name == "dependentRequired":
			keep = isListOfTexts(member)
		default:
			keep = slices.Contains(valueKeywords, name)
		}
		if !keep {
			continue
		}
		value, ok := member.Value(&s.workLeft)
		if !ok {
			return nil, s.spend()
		}
		out[name] = value
	}
	s.dropUnwanted(out, n)
	return out, nil
}

func (s *schemas) nested(out map[string]any, n *Node, uses *[]*definition) error {
	absent := s.absent
	defer func() { s.absent = absent }()
	for _, name := range schemaKeywords {
		s.absent = nil
		if slices.Contains(sameObject, name) {
			s.absent = absent
		}
		if member := n.Get(name); member.Kind() == KindMap || member.Kind() == KindBool {
			schema, err := s.schema(member, uses)
			if err != nil {
				return err
			}
			if member.True() {
				schema = true
			}
			out[name] = schema
		}
	}
	for _, name := range schemaListKeywords {
		s.absent = nil
		if slices.Contains(sameObject, name) {
			s.absent = absent
		}
		if n.Get(name).Kind() != KindList || n.Get(name).Len() == 0 {
			continue
		}
		var list []any
		for _, item := range n.Get(name).Items() {
			schema, err := s.schema(item, uses)
			if err != nil {
				return err
			}
			list = append(list, schema)
		}
		out[name] = list
	}
	s.absent = nil
	for _, name := range schemaMapKeywords {
		if n.Get(name).Kind() != KindMap {
			continue
		}
		members := map[string]any{}
		for member, node := range n.Get(name).Members() {
			if name == "properties" && s.isUnwanted(node) {
				continue
			}
			schema, err := s.schema(node, uses)
			if err != nil {
				return err
			}
			members[member] = schema
		}
		out[name] = members
	}
	return nil
}

// sameObject are the keywords whose schemas apply to the same object as the one that has them.
var sameObject = []string{"allOf", "anyOf", "oneOf", "if", "then", "else"}

// addAbsent adds to s.absent the properties that n and the schemas in its allOf leave out, and
// that none of them has. Any of these schemas can require such a property.
func (s *schemas) addAbsent(n *Node) error {
	if n.Get("allOf").Len() == 0 {
		return nil
	}
	absent, present := map[string]bool{}, map[string]bool{}
	pending := []*Node{n}
	for visits := 0; len(pending) > 0 && visits < maxAllOf; visits++ {
		if err := s.spend(); err != nil {
			return err
		}
		n, err := s.set.Resolve(pending[0])
		if err != nil {
			return err
		}
		pending = pending[1:]
		for name, schema := range n.Get("properties").Members() {
			if err := s.spend(); err != nil {
				return err
			}
			if s.isUnwanted(schema) {
				absent[name] = true
			} else {
				present[name] = true
			}
		}
		branches := n.Get("allOf").Items()
		pending = append(pending, branches[:min(len(branches), maxAllOf)]...)
	}
	maps.DeleteFunc(absent, func(name string, _ bool) bool { return present[name] })
	if len(absent) > 0 {
		s.workLeft -= len(s.absent)
		maps.Copy(absent, s.absent)
		s.absent = absent
	}
	return nil
}

// isUnwanted checks the property itself and the target of its reference.
func (s *schemas) isUnwanted(property *Node) bool {
	if property.Get(s.unwantedMark).True() {
		return true
	}
	target, err := s.set.Resolve(property)
	return err == nil && target.Get(s.unwantedMark).True()
}

// dropUnwanted removes the properties that were left out from the required ones.
func (s *schemas) dropUnwanted(out map[string]any, n *Node) {
	required := slices.DeleteFunc(n.Get("required").Texts(), func(name string) bool {
		if property := n.At("properties", name); property != nil {
			return s.isUnwanted(property)
		}
		return s.absent[name]
	})
	if _, kept := out["required"]; kept {
		out["required"] = slices.Compact(slices.Sorted(slices.Values(required)))
	}
	if len(required) == 0 {
		delete(out, "required")
	}
}

// upgradeKeywords converts the keywords that only OpenAPI has to JSON Schema 2020-12.
func (s *schemas) upgradeKeywords(out map[string]any, n *Node) any {
	if example := n.Get("example"); example != nil && out["examples"] == nil {
		if value, ok := example.Value(&s.workLeft); ok {
			out["examples"] = []any{value}
		}
	}
	switch out["format"] {
	case "byte":
		delete(out, "format")
		out["contentEncoding"] = "base64"
	case "binary":
		delete(out, "format")
	}
	if !s.openAPI30 {
		return out
	}
	// In 3.0 the exclusive bounds are booleans next to the bounds.
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if value, ok := out[bound]; ok && n.Get(exclusive).True() {
			out[exclusive] = value
			delete(out, bound)
		}
	}
	if n.Get("nullable").True() {
		return nullable(out)
	}
	return out
}

// nullable returns a schema that also accepts null: it extends the type if only the type
// would refuse null, else it adds an alternative to the schema.
func nullable(out map[string]any) any {
	typ, isText := out["type"].(string)
	for _, name := range append([]string{"const", "not", "if"}, schemaListKeywords...) {
		if _, ok := out[name]; ok {
			isText = false
		}
	}
	if !isText {
		if len(out) == 0 {
			return out
		}
		return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
	}
	out["type"] = []string{typ, "null"}
	if enum, ok := out["enum"].([]any); ok && !slices.Contains(enum, nil) {
		out["enum"] = append(enum, nil)
	}
	return out
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

func isType(n *Node) bool {
	if n.Kind() == KindText {
		return slices.Contains(types, n.Text())
	}
	names := n.Texts()
	distinct := slices.Compact(slices.Sorted(slices.Values(names)))
	return len(names) > 0 && len(names) == n.Len() && len(distinct) == len(names) &&
		!slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(types, name) })
}

func isListOfTexts(n *Node) bool {
	for _, member := range n.Members() {
		if member.Kind() != KindList || len(member.Texts()) != member.Len() {
			return false
		}
	}
	return n.Kind() == KindMap
}

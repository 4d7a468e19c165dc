package graphql

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/toolroom/toolroom"
)

// introspection is the query for the types of a service. It nests types as deep as GraphQL's own
// tools do.
const introspection = `query Toolroom {
  __schema {
    queryType { name }
    mutationType { name }
    types {
      kind name description
      fields(includeDeprecated: false) { name description args { ...Input } type { ...Type } }
      inputFields { ...Input }
      enumValues(includeDeprecated: false) { name }
      possibleTypes { name }
    }
  }
}
fragment Input on __InputValue { name description type { ...Type } defaultValue }
fragment Type on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } }`

// Limits of the response to an introspection.
const (
	maxIntrospection = 64 << 20
	maxTypes         = 50_000
	maxTools         = 2_000
)

// schema holds the types of a service.
type schema struct {
	query, mutation string
	types           map[string]*typeInfo
}

type typeInfo struct {
	Kind          string
	Name          string
	Description   string
	Fields        []field
	InputFields   []input
	EnumValues    []namedRef
	PossibleTypes []namedRef
}

type namedRef struct{ Name string }

type field struct {
	Name        string
	Description string
	Args        []input
	Type        typeRef
}

type input struct {
	Name         string
	Description  string
	Type         typeRef
	DefaultValue *string
}

// required reports whether the value must be given.
func (i input) required() bool { return i.Type.Kind == "NON_NULL" && i.DefaultValue == nil }

type typeRef struct {
	Kind   string
	Name   string
	OfType *typeRef
}

// inner returns the type below lists and non-nulls.
func (t typeRef) inner() typeRef {
	for t.OfType != nil {
		t = *t.OfType
	}
	return t
}

// String returns the type as GraphQL writes it: [Int!]!.
func (t typeRef) String() string {
	switch {
	case t.OfType == nil:
		return t.Name
	case t.Kind == "NON_NULL":
		return t.OfType.String() + "!"
	default:
		return "[" + t.OfType.String() + "]"
	}
}

// isName reports whether a text is a name in GraphQL. Only such names get into queries.
func isName(text string) bool { return len(text) <= 128 && namePattern.MatchString(text) }

// namePattern does not limit the length, because compiling {0,127} would slow down each start of
// the program.
var namePattern = regexp.MustCompile(`^[_A-Za-z][_0-9A-Za-z]*$`)

// readSchema reads the data of a response to the introspection. It leaves out types without a
// valid name.
func readSchema(data json.RawMessage) (*schema, error) {
	var answer struct {
		Schema *struct {
			QueryType, MutationType *namedRef
			Types                   []*typeInfo
		} `json:"__schema"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Schema == nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the service did not answer the introspection with a schema").
			WithHint("check that the URL is that of a GraphQL endpoint, and that it permits introspection")
	}
	if len(answer.Schema.Types) > maxTypes {
		return nil, toolroom.Errorf(toolroom.CodeResourceLimit, "the schema has more than %d types", maxTypes)
	}
	s := &schema{types: make(map[string]*typeInfo, len(answer.Schema.Types))}
	for _, t := range answer.Schema.Types {
		if t != nil && isName(t.Name) {
			s.types[t.Name] = t
		}
	}
	if q := answer.Schema.QueryType; q != nil {
		s.query = q.Name
	}
	if m := answer.Schema.MutationType; m != nil {
		s.mutation = m.Name
	}
	if s.types[s.query] == nil && s.types[s.mutation] == nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the schema has neither queries nor mutations")
	}
	return s, nil
}

// field returns a field of a type, or nil if the type does not have it.
func (s *schema) field(typeName, name string) *field {
	t := s.types[typeName]
	if t == nil {
		return nil
	}
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// composite reports whether values of the type have fields, of which a query must select some.
func (s *schema) composite(t typeRef) bool {
	found := s.types[t.inner().Name]
	return found != nil && (found.Kind == "OBJECT" || found.Kind == "INTERFACE" || found.Kind == "UNION")
}

// Limits of the JSON Schema of one tool. Beyond them an object is described by its name only.
const (
	maxInputDepth = 4
	maxProperties = 300
	maxEnumText   = 32 << 10 // bytes of the values of all enums
)

// schemaBuilder builds JSON Schemas.
type schemaBuilder struct {
	*schema
	propertiesLeft int // properties and lists
	enumTextLeft   int // bytes of enum values
}

// schemaOf returns the schema of a type. Unless the type is non-null, the schema accepts null,
// which differs from a missing value: many services clear a field that is null.
func (i *schemaBuilder) schemaOf(t typeRef, depth int) map[string]any {
	if t.Kind == "NON_NULL" {
		return i.nonNullSchema(elementType(t), depth)
	}
	one := i.nonNullSchema(t, depth)
	switch kind := one["type"].(type) {
	case string:
		one["type"] = []string{kind, "null"}
	case []string:
		one["type"] = append(kind, "null")
	}
	if values, ok := one["enum"].([]any); ok {
		one["enum"] = append(values, nil)
	}
	return one
}

// nonNullSchema returns the schema of the values of a type other than null.
func (i *schemaBuilder) nonNullSchema(t typeRef, depth int) map[string]any {
	if t.Kind == "LIST" {
		if i.propertiesLeft--; i.propertiesLeft < 0 {
			return map[string]any{"type": "array"}
		}
		return map[string]any{"type": "array", "items": i.schemaOf(elementType(t), depth)}
	}
	switch t.Name {
	case "Int":
		return map[string]any{"type": "integer"}
	case "Float":
		return map[string]any{"type": "number"}
	case "Boolean":
		return map[string]any{"type": "boolean"}
	case "String":
		return map[string]any{"type": "string"}
	case "ID":
		return map[string]any{"type": []string{"string", "integer"}}
	}
	found := i.types[t.Name]
	switch {
	case found != nil && found.Kind == "ENUM":
		values := make([]any, len(found.EnumValues))
		size := 0
		for n, v := range found.EnumValues {
			values[n] = v.Name
			size += len(v.Name) + 1
		}
		if size > i.enumTextLeft {
			return map[string]any{"type": "string", "description": fmt.Sprintf("one of the %d values of the enum %s", len(values), t.Name)}
		}
		i.enumTextLeft -= size
		return map[string]any{"enum": values}
	case found != nil && found.Kind == "INPUT_OBJECT":
		return i.objectSchema(found, depth)
	}
	return map[string]any{"description": "a value of the scalar " + clip(t.Name, maxDefault)}
}

func (i *schemaBuilder) objectSchema(t *typeInfo, depth int) map[string]any {
	if depth >= maxInputDepth || i.propertiesLeft < len(t.InputFields) {
		return map[string]any{"type": "object", "description": "an input object " + t.Name}
	}
	return i.membersSchema(t.InputFields, depth+1)
}

// membersSchema returns the schema of an object with the inputs.
func (i *schemaBuilder) membersSchema(list []input, depth int) map[string]any {
	i.propertiesLeft -= len(list)
	properties, required := map[string]any{}, []string{}
	for _, in := range list {
		if !isName(in.Name) {
			continue
		}
		one := i.schemaOf(in.Type, depth)
		text := clip(in.Description, maxInputText)
		if in.DefaultValue != nil && len(*in.DefaultValue) <= maxDefault {
			text = joinSentences(text, "Default: "+*in.DefaultValue)
		}
		if text != "" {
			one["description"] = joinSentences(text, textOf(one["description"]))
		}
		properties[in.Name] = one
		if in.required() {
			required = append(required, in.Name)
		}
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

func elementType(t typeRef) typeRef {
	if t.OfType == nil {
		return typeRef{}
	}
	return *t.OfType
}

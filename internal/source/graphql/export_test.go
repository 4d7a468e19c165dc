package graphql

// ParseSelectionForTest parses a selection of a type with fields of all kinds.
func ParseSelectionForTest(text string) (string, error) {
	user := typeRef{Kind: "OBJECT", Name: "User"}
	plain := typeRef{Kind: "SCALAR", Name: "String"}
	s := &schema{types: map[string]*typeInfo{"User": {Kind: "OBJECT", Name: "User", Fields: []field{
		{Name: "id", Type: plain},
		{Name: "name", Type: plain},
		{Name: "boss", Type: user},
		{Name: "friends", Type: user, Args: []input{{Name: "first", Type: plain}, {Name: "named", Type: plain}}},
	}}}}
	return s.parseSelection("User", text)
}

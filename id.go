package toolroom

import (
	"fmt"
	"strings"
)

// MaxIDPart is the maximum length of a namespace or a name, in bytes.
const MaxIDPart = 128

// ID is the canonical id of a tool: namespace:name, with an optional @version. IDs are
// comparable. The zero ID names no tool.
type ID struct {
	Namespace string
	Name      string
	Version   Version
}

// Version names one immutable definition of a tool. Empty means the current one.
type Version string

// ParseID parses the canonical form namespace:name[@version]. [Spellings] reads the other
// spellings that people and models use. The error is an [*Error] with code invalid_id.
func ParseID(s string) (ID, error) {
	body, version, err := splitVersion(s)
	if err != nil {
		return ID{}, err
	}
	namespace, name, ok := strings.Cut(body, ":")
	if !ok {
		return ID{}, invalidID(s, "it has no namespace", "write namespace:name, for example file:read")
	}
	id := ID{namespace, name, version}
	if err := id.validate(s); err != nil {
		return ID{}, err
	}
	return id, nil
}

// MustParseID is like [ParseID] but panics if s is invalid. It is for constants.
func MustParseID(s string) ID {
	id, err := ParseID(s)
	if err != nil {
		panic(err)
	}
	return id
}

// String returns the canonical form, which ParseID accepts.
func (id ID) String() string {
	s := id.Namespace + ":" + id.Name
	if id.Version != "" {
		s += "@" + string(id.Version)
	}
	return s
}

// IsZero reports whether id is the zero ID.
func (id ID) IsZero() bool { return id == ID{} }

// Unversioned returns id without its version.
func (id ID) Unversioned() ID { return ID{Namespace: id.Namespace, Name: id.Name} }

// Validate returns an [*Error] with code invalid_id unless ParseID could have returned id.
// It checks ids that were built field by field.
func (id ID) Validate() error { return id.validate(id.String()) }

func (id ID) validate(spelled string) error {
	if err := checkPart(spelled, "namespace", id.Namespace); err != nil {
		return err
	}
	if err := checkPart(spelled, "name", id.Name); err != nil {
		return err
	}
	if id.Version != "" {
		return checkPart(spelled, "version", string(id.Version))
	}
	return nil
}

// MarshalText returns the canonical form, which is the form of an ID in JSON.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the form that MarshalText returns.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// Spellings returns every id that s may mean, with the canonical reading first. People
// and models spell the same tool in several ways:
//
//	file:read  file.read  file__read  mcp:file:read  mcp:file/read  read
//
// An entry with an empty Namespace means "any tool of this name". The catalog decides
// which of the ids exist. If more than one exists, the spelling is ambiguous. The error
// is an [*Error] with code invalid_id.
func Spellings(s string) ([]ID, error) {
	body, version, err := splitVersion(s)
	if err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(body, "mcp:"); ok {
		if server, tool, ok := cutAny(rest, ":/"); ok {
			id := ID{server, tool, version}
			if err := id.validate(s); err != nil {
				return nil, err
			}
			return []ID{id}, nil
		}
	}
	if namespace, name, ok := strings.Cut(body, ":"); ok {
		id := ID{namespace, name, version}
		if err := id.validate(s); err != nil {
			return nil, err
		}
		return []ID{id}, nil
	}

	if err := checkSpelling(s, body); err != nil {
		return nil, err
	}
	var ids []ID
	for _, sep := range []string{".", "__"} {
		for at := 1; at < len(body); at++ {
			if !strings.HasPrefix(body[at:], sep) {
				continue
			}
			id := ID{body[:at], body[at+len(sep):], version}
			if id.validate(s) == nil {
				ids = append(ids, id)
			}
		}
	}
	if len(body) <= MaxIDPart {
		ids = append(ids, ID{Name: body, Version: version})
	}
	if len(ids) == 0 {
		return nil, checkPart(s, "name", body)
	}
	return ids, nil
}

// maxSpelling bounds the input of Spellings: the longest canonical id and a prefix.
const maxSpelling = 3*MaxIDPart + len("mcp:") + len(":@")

func checkSpelling(spelled, body string) error {
	if len(body) > maxSpelling {
		return invalidID(spelled[:32]+"…", fmt.Sprintf("it has %d bytes", len(body)), fmt.Sprintf("a namespace or name has at most %d", MaxIDPart))
	}
	for _, r := range body {
		if !isIDRune(r) {
			return invalidID(spelled, fmt.Sprintf("%q is not allowed", r), "use A-Z a-z 0-9 _ . - in namespace and name")
		}
	}
	if body == "" {
		return invalidID(spelled, "it is empty", "write namespace:name, for example file:read")
	}
	return nil
}

func splitVersion(s string) (body string, version Version, err error) {
	body, v, found := strings.Cut(s, "@")
	if !found {
		return body, "", nil
	}
	if err := checkPart(s, "version", v); err != nil {
		return "", "", err
	}
	return body, Version(v), nil
}

func checkPart(spelled, part, text string) error {
	switch {
	case text == "":
		return invalidID(spelled, "its "+part+" is empty", "write namespace:name, for example file:read")
	case len(text) > MaxIDPart:
		return invalidID(spelled[:32]+"…", fmt.Sprintf("its %s has %d bytes", part, len(text)), fmt.Sprintf("use at most %d", MaxIDPart))
	}
	if part != "version" && (text == "." || text == "..") { // sources and tools have folders of their names
		return invalidID(spelled, "its "+part+" is "+text, "use letters or digits, too")
	}
	for _, r := range text {
		if !isIDRune(r) {
			return invalidID(spelled, fmt.Sprintf("%q is not allowed in its %s", r, part), "use A-Z a-z 0-9 _ . -")
		}
	}
	return nil
}

func isIDRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' || r == '.' || r == '-'
}

func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

func invalidID(spelled, reason, hint string) *Error {
	if len(spelled) > maxSpelling {
		spelled = spelled[:maxSpelling] + "…"
	}
	return &Error{
		Code:    CodeInvalidID,
		Phase:   PhaseResolve,
		Message: fmt.Sprintf("tool id %q is not valid: %s", spelled, reason),
		Hint:    hint,
	}
}

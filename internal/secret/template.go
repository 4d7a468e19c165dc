package secret

import (
	"net/url"
	"strings"

	"github.com/toolroom/toolroom"
)

// Placeholders of a [Template].
const (
	inScope    = "{scope}"
	inName     = "{name}"
	inIdentity = "{identity}"
)

// Template is the location of a value in a backend. {scope}, {name} and {identity} stand for
// those of a reference.
type Template string

// Path returns the location as the path of a URL. It escapes the identity, so that it stays one
// segment.
func (t Template) Path(ref Ref) (string, error) {
	if ref.Owner == "." || ref.Owner == ".." {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%q cannot be part of a path", ref.Owner)
	}
	return t.fill(ref, url.PathEscape(ref.Owner)), nil
}

// Word returns the location as a name or a word of a command line.
func (t Template) Word(ref Ref) (string, error) {
	if strings.HasPrefix(ref.Owner, "-") || strings.ContainsRune(ref.Owner, 0) {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%q cannot be a word of a command", ref.Owner)
	}
	return t.fill(ref, ref.Owner), nil
}

func (t Template) fill(ref Ref, owner string) string {
	return strings.NewReplacer(inScope, ref.Scope, inName, ref.Name, inIdentity, owner).Replace(string(t))
}

// HasIdentity reports whether the location depends on the identity.
func (t Template) HasIdentity() bool { return strings.Contains(string(t), inIdentity) }

// NotSetError returns the error of a backend that has no value for ref. where is the location that was
// looked up.
func NotSetError(ref Ref, where string) error {
	e := ref.unset().(*toolroom.Error)
	return e.WithHint("put it there: %s", where)
}

// SharedOnlyError returns the error of a backend that has only shared values. key is the config key to set.
func SharedOnlyError(ref Ref, backend, key string) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "%s is a value of each caller, and the %s keeps shared values only", ref, backend).
		WithHint("set %s with {identity} in it", key)
}

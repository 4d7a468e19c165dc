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

// Template is where a backend keeps a value, with {scope}, {name} and
// {identity} in the place of those of a reference.
type Template string

// Path fills the template in as a path of a URL. What an identity has besides
// letters and digits is escaped, so that it stays one segment.
func (t Template) Path(ref Ref) (string, error) {
	if ref.Owner == "." || ref.Owner == ".." {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%q cannot be part of a path", ref.Owner)
	}
	return t.fill(ref, url.PathEscape(ref.Owner)), nil
}

// Word fills the template in as a word of a command line or a name.
func (t Template) Word(ref Ref) (string, error) {
	if strings.HasPrefix(ref.Owner, "-") || strings.ContainsRune(ref.Owner, 0) {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%q cannot be a word of a command", ref.Owner)
	}
	return t.fill(ref, ref.Owner), nil
}

func (t Template) fill(ref Ref, owner string) string {
	return strings.NewReplacer(inScope, ref.Scope, inName, ref.Name, inIdentity, owner).Replace(string(t))
}

// HasIdentity reports whether the template tells identities apart.
func (t Template) HasIdentity() bool { return strings.Contains(string(t), inIdentity) }

// Unset is the error of a backend that has no value for ref; where is what to
// look at.
func Unset(ref Ref, where string) error {
	e := ref.unset().(*toolroom.Error)
	return e.WithHint("put it there: %s", where)
}

// NoOwn is the error of a backend that keeps no values of single identities.
func NoOwn(ref Ref, backend, key string) error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "%s is a value of each caller, and the %s keeps shared values only", ref, backend).
		WithHint("set %s with {identity} in it", key)
}

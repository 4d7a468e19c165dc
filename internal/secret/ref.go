// Package secret stores values that no config, receipt or log may show.
// toolroom.yaml refers to them ([ParseRef]), a [Store] keeps them encrypted, a
// [Resolver] returns the value of a reference, and a [Redactor] removes values from
// everything that is shown or recorded.
package secret

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/toolroom/toolroom"
)

// The schemes of references.
const (
	stored      = "secret://"
	environment = "env://"
)

// Ref is a reference to a secret: secret://scope/name, kept by a [Store], or
// env://NAME, a variable of the process's environment. Refs are comparable.
type Ref struct {
	// Scope is empty for env://.
	Scope string
	Name  string
	// Owner is the [toolroom.Identity.Key] of the identity whose own value is meant. It is
	// empty for the shared value. The text of a reference never names an owner: it is the
	// caller.
	Owner string
}

var reference = regexp.MustCompile(`\b(?:secret|env)://[A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]*)*`)

// References returns the references in a text such as "Bearer secret://a/b", including invalid
// ones. A reference ends before the first character that no name contains.
func References(text string) []string { return reference.FindAllString(text, -1) }

// ParseRef parses a reference. The error has the code invalid_arguments.
func ParseRef(text string) (Ref, error) {
	if name, ok := strings.CutPrefix(text, environment); ok {
		if !isVariable(name) {
			return Ref{}, invalidRef(text, "a variable has letters, digits and _, and no digit first", "env://GITHUB_TOKEN")
		}
		return Ref{Name: name}, nil
	}
	path, ok := strings.CutPrefix(text, stored)
	if !ok {
		return Ref{}, invalidRef(text, "it begins with neither secret:// nor env://", "secret://github/token")
	}
	return ParsePath(path)
}

// ParsePath parses scope/name, the form of the command line.
func ParsePath(path string) (Ref, error) {
	scope, name, _ := strings.Cut(path, "/")
	if !isPart(scope) || !isPart(name) {
		return Ref{}, invalidRef(stored+path, "it needs a scope and a name of 1 to 128 characters of A-Z a-z 0-9 _ . -, without . or - at the beginning", "secret://github/token")
	}
	return Ref{Scope: scope, Name: name}, nil
}

// Of returns the reference to the owner's own value.
func (r Ref) Of(owner string) Ref {
	r.Owner = owner
	return r
}

// parseKey parses the result of [Ref.key].
func parseKey(key string) (Ref, error) {
	path, escaped, own := strings.Cut(key, "@")
	ref, err := ParsePath(path)
	if err != nil || !own {
		return ref, err
	}
	owner, err := url.PathUnescape(escaped)
	return ref.Of(owner), err
}

// key returns the name of the value in a [Store].
func (r Ref) key() string {
	if r.Owner == "" {
		return r.path()
	}
	return r.path() + "@" + url.PathEscape(r.Owner)
}

// String returns the reference in the form that ParseRef parses.
func (r Ref) String() string {
	if r.Scope == "" {
		return environment + r.Name
	}
	return stored + r.path()
}

func (r Ref) path() string { return r.Scope + "/" + r.Name }

// mark returns the text that replaces the value. It contains no character that JSON, a URL query
// in a log or a shell would have to escape.
func (r Ref) mark() string {
	if r.Scope == "" {
		return "[env " + r.Name + "]"
	}
	return "[secret " + r.path() + "]"
}

// unset returns the error for a reference without a value.
func (r Ref) unset() error {
	e := toolroom.Errorf(toolroom.CodeNotFound, "%s is not set", r)
	if r.Scope == "" {
		return e.WithHint("set the variable before Toolroom starts: export %s=…", r.Name)
	}
	if r.Owner != "" {
		e.Message = r.String() + " is not set for " + r.Owner
		return e.WithCLIHint("set it: toolroom secret set %s --for %s", r.path(), r.Owner)
	}
	return e.WithCLIHint("set it: toolroom secret set %s", r.path())
}

func invalidRef(text, reason, example string) error {
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not a reference to a secret: %s", text, reason).
		WithHint("for example %s", example)
}

func isPart(s string) bool {
	// Backends use names as parts of paths and as words of command lines.
	return s != "" && s[0] != '.' && s[0] != '-' && toolroom.ID{Namespace: s, Name: s}.Validate() == nil
}

func isVariable(s string) bool {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= toolroom.MaxIDPart
}

// Package environ reads secrets from the environment of the process, from
// variables that are named.
package environ

import (
	"context"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// Options say which variables.
type Options struct {
	// Variable is the name of the variable ({scope}_{name}), in capitals and
	// with _ for what no variable has.
	Variable secret.Template
	// Allow are the variables that may be read.
	Allow []string
	// Lookup is os.LookupEnv.
	Lookup func(string) (string, bool)
}

// Store is a [secret.Backend].
type Store struct{ o Options }

// New makes a store.
func New(o Options) *Store {
	if o.Variable == "" {
		o.Variable = "{scope}_{name}"
	}
	return &Store{o}
}

// Get reads a variable.
func (s *Store) Get(_ context.Context, ref secret.Ref) (string, error) {
	if ref.Owner != "" {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "%s is a value of each caller, and an environment has shared values only", ref)
	}
	name, err := s.o.Variable.Word(ref)
	if err != nil {
		return "", err
	}
	name = strings.Map(variable, name)
	if !slices.Contains(s.o.Allow, name) {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%s is the variable %s, which may not be read", ref, name).
			WithHint("add %s to allow of the store", name)
	}
	value, _ := s.o.Lookup(name)
	if value == "" {
		return "", secret.Unset(ref, "the variable "+name)
	}
	return value, nil
}

func variable(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z':
		return r - 'a' + 'A'
	case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return r
	default:
		return '_'
	}
}

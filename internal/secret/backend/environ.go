package backend

import (
	"context"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
)

// EnvironOptions configure an [Environ].
type EnvironOptions struct {
	// Variable is the template of a variable's name. The default is
	// {scope}_{name}. Letters become capitals, and characters that a variable's
	// name cannot have become _.
	Variable secret.Template
	// Allow lists the variables that may be read.
	Allow []string
	// Lookup is os.LookupEnv.
	Lookup func(string) (string, bool)
}

// Environ reads secrets from the environment of this process.
type Environ struct{ o EnvironOptions }

// NewEnviron returns an Environ with these options.
func NewEnviron(o EnvironOptions) *Environ {
	if o.Variable == "" {
		o.Variable = "{scope}_{name}"
	}
	return &Environ{o}
}

// Get reads a variable.
func (s *Environ) Get(_ context.Context, ref secret.Ref) (string, error) {
	if ref.Owner != "" {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "%s is a value of each caller, and an environment has shared values only", ref)
	}
	name, err := s.o.Variable.Word(ref)
	if err != nil {
		return "", err
	}
	name = strings.Map(variable, name)
	if !slices.Contains(s.o.Allow, name) {
		return "", toolroom.Errorf(toolroom.CodeDenied, "%s is the variable %s, which allow does not list", ref, name).
			WithHint("add %s to allow of the store", name)
	}
	value, _ := s.o.Lookup(name)
	if value == "" {
		return "", secret.NotSetError(ref, "the variable "+name)
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

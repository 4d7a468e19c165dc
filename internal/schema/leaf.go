package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// A leaf is one cause at the bottom of the validator's tree of errors.
type leaf struct {
	path   []string // into the document
	value  any      // at path
	cause  cause
	schema string // location of the subschema that is not met
	// nameAtFault means that the name at the end of path is at fault; it is the value.
	nameAtFault bool
}

// A cause is an ErrorKind of the validator, or missing or unknown.
type cause interface{ KeywordPath() []string }

// missing is the cause of a leaf whose path leads to a property that is not there.
type missing struct {
	name    string
	keyword string
	with    string // the property that requires it, empty if it is always required
}

func (m missing) KeywordPath() []string { return []string{m.keyword} }

// unknown is the cause of a leaf whose path leads to a property that may not be there.
type unknown struct {
	name    string
	keyword string
}

func (u unknown) KeywordPath() []string { return []string{u.keyword} }

// appendLeaves flattens a tree of errors.
func appendLeaves(dst []leaf, e *jsonschema.ValidationError, document any) []leaf {
	at := e.InstanceLocation
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			dst = appendLeaves(dst, cause, document)
		}
		return dst
	case *kind.AnyOf:
		return appendClosestBranch(dst, e, document)
	case *kind.OneOf:
		if k.Subschemas == nil {
			return appendClosestBranch(dst, e, document)
		}
	case *kind.Required:
		return appendMissing(dst, e, k.Missing, "required", "")
	case *kind.DependentRequired:
		return appendMissing(dst, e, k.Missing, "dependentRequired", k.Prop)
	case *kind.Dependency:
		return appendMissing(dst, e, k.Missing, "dependencies", k.Prop)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			dst = appendUnknown(dst, appendPath(at, name), document, unknown{name, "additionalProperties"}, e.SchemaURL)
		}
		return dst
	case *kind.FalseSchema:
		const keyword = "unevaluatedProperties"
		if owner, ok := strings.CutSuffix(e.SchemaURL, "/"+keyword); ok && len(at) > 0 {
			return appendUnknown(dst, at, document, unknown{at[len(at)-1], keyword}, owner)
		}
	case *kind.PropertyNames:
		// The names of members are documents of their own to the validator.
		first := len(dst)
		for _, cause := range e.Causes {
			dst = appendLeaves(dst, cause, k.Property)
		}
		for i := range dst[first:] {
			l := &dst[first+i]
			l.path, l.value, l.nameAtFault = appendPath(at, k.Property), k.Property, true
		}
		return dst
	}
	value, _ := lookup(document, at)
	return append(dst, leaf{path: at, value: value, cause: e.ErrorKind, schema: e.SchemaURL})
}

func appendMissing(dst []leaf, e *jsonschema.ValidationError, names []string, keyword, with string) []leaf {
	for _, name := range names {
		dst = append(dst, leaf{
			path: appendPath(e.InstanceLocation, name), cause: missing{name, keyword, with}, schema: e.SchemaURL,
		})
	}
	return dst
}

func appendUnknown(dst []leaf, path []string, document any, u unknown, schema string) []leaf {
	value, _ := lookup(document, path)
	return append(dst, leaf{path: path, value: value, cause: u, schema: schema})
}

// appendClosestBranch takes the leaves of the branch of an anyOf or oneOf that
// the author of the document most likely meant: the one that fits best in kind,
// then the one with the fewest problems, then the first. If no branch takes a
// value of this type at all, one leaf lists the types that are taken.
func appendClosestBranch(dst []leaf, e *jsonschema.ValidationError, document any) []leaf {
	depth := len(e.InstanceLocation)
	var best []leaf
	bestMisfit := 0
	allTypes := true // no branch takes a value of this type
	var types []string
	for i, cause := range e.Causes {
		branch := appendLeaves(nil, cause, document)
		if misfit := mismatchRank(branch, depth); i == 0 || misfit < bestMisfit {
			best, bestMisfit = branch, misfit
		}
		if mismatch, ok := typeMismatchOnly(branch, depth); ok {
			types = append(types, mismatch.Want...)
		} else {
			allTypes = false
		}
	}
	if !allTypes {
		return append(dst, best...)
	}
	slices.Sort(types)
	value, _ := lookup(document, e.InstanceLocation)
	mismatch := &kind.Type{Want: slices.Compact(types)}
	return append(dst, leaf{path: e.InstanceLocation, value: value, cause: mismatch, schema: e.SchemaURL})
}

// typeMismatchOnly returns the mismatch of a branch that fails for the type of the
// value alone.
func typeMismatchOnly(branch []leaf, depth int) (*kind.Type, bool) {
	if len(branch) != 1 || len(branch[0].path) != depth {
		return nil, false
	}
	mismatch, ok := branch[0].cause.(*kind.Type)
	return mismatch, ok
}

// mismatchRank is how far a branch is from being meant: most if it wants another kind
// of value, then if a property that tells branches apart has another value.
func mismatchRank(branch []leaf, depth int) int {
	sum := len(branch)
	for _, l := range branch {
		_, wrongType := l.cause.(*kind.Type)
		_, wrongConst := l.cause.(*kind.Const)
		_, wrongEnum := l.cause.(*kind.Enum)
		switch below := len(l.path) - depth; {
		case below == 0 && (wrongType || wrongConst || wrongEnum):
			sum += 10_000
		case below == 1 && (wrongConst || wrongEnum):
			sum += 100
		}
	}
	return sum
}

// lookup follows path into a document.
func lookup(document any, path []string) (any, bool) {
	for _, token := range path {
		switch holder := document.(type) {
		case map[string]any:
			member, ok := holder[token]
			if !ok {
				return nil, false
			}
			document = member
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(holder) {
				return nil, false
			}
			document = holder[i]
		default:
			return nil, false
		}
	}
	return document, true
}

func appendPath(path []string, token string) []string {
	return append(slices.Clone(path), token)
}

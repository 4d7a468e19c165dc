package expression

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// call charges for a builtin, and calls it.
func (r *run) call(name string, args []any) (any, error) {
	if err := r.charge(itemWork); err != nil {
		return nil, err
	}
	if err := r.chargeBuiltin(name, args); err != nil {
		return nil, err
	}
	if name == "uniq" {
		if list, ok := distinct(args[0]); ok {
			return list, nil
		}
	}
	f := builtin.Builtins[builtin.Index[name]]
	switch {
	case f.Fast != nil:
		return f.Fast(args[0]), nil
	case f.Safe != nil:
		v, _, err := f.Safe(args...)
		return v, err
	}
	return f.Func(args...)
}

// lookups take the same time for a list of any length, and shallow are the
// builtins that copy a list but do not look into its items.
var (
	lookups = []string{"len", "type", "first", "last", "get"}
	shallow = []string{"take", "keys", "values", "toPairs", "fromPairs", "reverse", "concat"}
)

// chargeBuiltin charges for a builtin, before it is called.
func (r *run) chargeBuiltin(name string, args []any) error {
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		s, _ := args[i].(string)
		return s
	}
	switch {
	case slices.Contains(lookups, name):
		return r.charge(len(text(0)) + len(text(1)))
	case slices.Contains(shallow, name):
		n := 0
		for _, arg := range args {
			n += size(arg)
		}
		return r.charge(saturatingMultiply(5*itemWork, n))
	case name == "repeat" && len(args) == 2:
		return r.charge(saturatingMultiply(len(text(0)), max(0, runtime.ToInt(args[1]))))
	case name == "replace":
		n := strings.Count(text(0), text(1))
		return r.charge(len(text(0)) + len(text(1)) + saturatingMultiply(len(text(2)), n))
	case name == "split", name == "splitAfter":
		if err := r.charge(len(text(0)) + len(text(1))); err != nil {
			return err
		}
		return r.charge(saturatingMultiply(itemWork, 1+strings.Count(text(0), text(1))))
	case name == "join":
		if err := r.charge(saturatingMultiply(len(text(1)), size(args[0]))); err != nil {
			return err
		}
		return r.chargeSize(sizeSum{}, args[0])
	case name == "trim":
		return r.charge(saturatingMultiply(len(text(0)), 1+len(text(1))))
	case name == "date", name == "timezone", name == "now":
		// Reading a time zone opens a file.
		return r.charge(1<<14 + 64*(len(text(0))+len(text(1))+len(text(2))))
	case name == "fromJSON":
		return r.charge(saturatingMultiply(32, len(text(0))))
	}
	w := sizeSum{limit: r.left()}
	for _, arg := range args {
		w.add(arg, 0)
	}
	if w.tooDeep {
		return ErrDepth
	}
	switch name {
	case "toJSON": // \u003c for <, and once more with indents
		w.sum = saturatingMultiply(w.sum, 16)
	case "string":
		w.sum = saturatingMultiply(w.sum, 4)
	case "sort":
		w.sum = saturatingMultiply(w.sum, 1+bits.Len(uint(size(args[0]))))
	case "uniq":
		if !isStringList(args[0]) {
			w.sum = saturatingMultiply(w.sum, size(args[0]))
		}
	}
	return r.charge(w.sum)
}

func isStringList(list any) bool {
	items, ok := list.([]any)
	return ok && !slices.ContainsFunc(items, func(v any) bool { _, is := v.(string); return !is })
}

// distinct is uniq for strings, in time that is proportional to their length.
func distinct(list any) ([]any, bool) {
	if !isStringList(list) {
		return nil, false
	}
	seen, kept := map[string]bool{}, []any{}
	for _, v := range list.([]any) {
		if s := v.(string); !seen[s] {
			seen[s] = true
			kept = append(kept, v)
		}
	}
	return kept, true
}

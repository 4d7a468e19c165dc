package expression

import (
	"context"
	"errors"
	"reflect"

	"github.com/expr-lang/expr/vm/runtime"
)

// Work is what one [Meter] allows: about the bytes that are read and written. It
// takes less than a second, and bounds the memory that strings take.
const Work = 64 << 20

// MaxDepth bounds how deep values nest.
const MaxDepth = 100

// What ends an evaluation.
var (
	ErrWork  = errors.New("it needs more time or memory than an expression may use; do this in a program (code:execute) instead")
	ErrDepth = errors.New("a value nests deeper than 100 levels")
)

// Meter counts the work of one or more evaluations, one after the other. The
// zero value has used nothing.
type Meter struct{ used int }

// meterName is the variable that holds the run. No expression can name it, and
// $env, which holds all variables, is refused.
const meterName = " run"

// run is one evaluation.
type run struct {
	ctx     context.Context //nolint:containedctx // Expr hands it from one function to the next
	meter   *Meter
	checked int

	patterns map[string]*matcher // compiled so far
}

// checkEvery is the work between two looks at the context.
const checkEvery = 1 << 18

// charge uses up work, before it is done.
func (r *run) charge(work int) error {
	if work < 0 || work > Work-r.meter.used {
		r.meter.used = Work
		return ErrWork
	}
	r.meter.used += work
	if r.meter.used-r.checked >= checkEvery {
		r.checked = r.meter.used
		return r.ctx.Err()
	}
	return nil
}

func (r *run) left() int { return Work - r.meter.used }

// chargeSize charges for all that values hold.
func (r *run) chargeSize(w sizeSum, values ...any) error {
	w.limit = r.left()
	for _, v := range values {
		w.add(v, 0)
	}
	if w.tooDeep {
		return ErrDepth
	}
	return r.charge(w.sum)
}

// itemWork is the work of one value of whatever kind.
const itemWork = 16

// sizeSum sums up what values hold, until that is more than limit. Shared parts
// count as often as they are seen, since whatever reads them sees them as often.
type sizeSum struct {
	sum, limit int
	tooDeep    bool
}

func (w *sizeSum) add(v any, depth int) {
	w.sum += itemWork + 2*depth // an indent, where the value is written
	if depth > MaxDepth {
		w.tooDeep = true
	}
	if w.tooDeep || w.sum > w.limit {
		return
	}
	switch v := v.(type) {
	case string:
		w.sum += len(v)
	case []any:
		for i := 0; i < len(v) && w.sum <= w.limit && !w.tooDeep; i++ {
			w.add(v[i], depth+1)
		}
	case map[string]any:
		for key, value := range v {
			w.sum += len(key)
			if w.add(value, depth+1); w.sum > w.limit || w.tooDeep {
				return
			}
		}
	case nil, bool, int, int64, float64:
	default:
		w.addOther(reflect.ValueOf(v), depth)
	}
}

// addOther weighs values that Expr itself makes, such as a map with keys of any kind.
func (w *sizeSum) addOther(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		w.sum += v.Len()
	case reflect.Slice, reflect.Array:
		for i := 0; i < v.Len() && w.sum <= w.limit && !w.tooDeep; i++ {
			w.add(v.Index(i).Interface(), depth+1)
		}
	case reflect.Map:
		for each := v.MapRange(); each.Next() && w.sum <= w.limit && !w.tooDeep; {
			w.add(each.Key().Interface(), depth+1)
			w.add(each.Value().Interface(), depth+1)
		}
	}
}

// size is the number of items of a value, or of bytes of a string.
func size(v any) int {
	switch of := reflect.ValueOf(v); of.Kind() {
	case reflect.String, reflect.Slice, reflect.Array, reflect.Map:
		return of.Len()
	}
	return 1
}

// chargeCompare charges for comparing two values: it ends with the smaller one.
func (r *run) chargeCompare(a, b any) error {
	w, other := sizeSum{limit: r.left()}, sizeSum{limit: r.left()}
	w.add(a, 0)
	other.add(b, 0)
	if w.tooDeep && other.tooDeep {
		return ErrDepth
	}
	return r.charge(min(w.sum, other.sum))
}

// chargeFind charges for comparing a value with each item of a list, or for hashing it.
func (r *run) chargeFind(needle, list any) error {
	w := sizeSum{limit: r.left()}
	w.add(needle, 0)
	if w.tooDeep {
		return ErrDepth
	}
	if reflect.ValueOf(list).Kind() == reflect.Map {
		return r.charge(w.sum)
	}
	if err := r.charge(w.sum); err != nil {
		return err
	}
	return r.charge(saturatingMultiply(w.sum, size(list)))
}

// saturatingMultiply multiplies, and gives more than any meter has where that would overflow.
func saturatingMultiply(a, b int) int {
	if a > 0 && b > Work/a {
		return Work + 1
	}
	return a * b
}

// operate charges for an operator, and applies it.
func (r *run) operate(operator string, a, b any) (any, error) {
	var err error
	switch operator {
	case "+":
		err = r.charge(itemWork + addedSize(a) + addedSize(b))
	case "in":
		err = r.chargeFind(a, b)
	case "==", "!=", "<", ">", "<=", ">=":
		err = r.chargeCompare(a, b)
	default:
		err = r.charge(itemWork + addedSize(a) + addedSize(b))
	}
	if err != nil {
		return nil, err
	}
	switch operator {
	case "+":
		return runtime.Add(a, b), nil
	case "in":
		return runtime.In(a, b), nil
	case "==":
		return runtime.Equal(a, b), nil
	case "!=":
		return !runtime.Equal(a, b), nil
	case "<":
		return runtime.Less(a, b), nil
	case ">":
		return runtime.More(a, b), nil
	case "<=":
		return runtime.LessOrEqual(a, b), nil
	case ">=":
		return runtime.MoreOrEqual(a, b), nil
	}
	return r.applyTextOperator(operator, a, b)
}

// addedSize is the part of an operand in what + makes: of strings, their bytes.
func addedSize(v any) int {
	s, _ := v.(string)
	return len(s)
}

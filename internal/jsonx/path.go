package jsonx

import (
	"context"
	"encoding/json"
	"errors"
)

// MaxPathBytes is the longest path, in bytes.
const MaxPathBytes = 4096

// MaxPathWork bounds how much text one selection may read, in bytes: a path reads some parts
// of a text many times. Each value that it reads counts valueWork bytes more, and each step
// counts stepWork, so that the bound also limits the time, to about a second.
const (
	MaxPathWork = 256 << 20
	valueWork   = 32
	stepWork    = 4
)

// ErrPathWork is the error of a selection that would read more than MaxPathWork.
var ErrPathWork = errors.New("the path looks at too many values: make it more exact")

// ErrNotJSON is the error of a selection from something that is not JSON.
var ErrNotJSON = errors.New("the text is not JSON")

// Path selects parts of a JSON text as RFC 9535 says, such as
// $.items[?@.state == "failed"].id. It is immutable.
//
// A Path does not decode the text: it selects parts byte for byte, so numbers of any size and
// the order of members are preserved, and memory does not grow with the text. Its work is
// bounded, because paths come from untrusted callers and a short one can select exponentially
// many parts.
//
// The function extensions of RFC 9535 section 2.4 (length, count, match, search
// and value) are left out; a path that uses one does not parse.
type Path struct {
	segments []segment
}

// A segment applies its selectors to a value, and a descendant segment also to all values
// within it.
type segment struct {
	descendant bool
	selectors  []selector
}

// selector calls yield with the children of v that it selects. Like every function with a
// yield here, it reports whether to continue.
type selector interface {
	apply(s *selection, v []byte, yield func([]byte) bool) bool
}

// Select calls yield with each part of text that the path selects, in the order
// of the RFC, until yield returns false. The parts are slices of text. The
// error is ErrNotJSON, ErrPathWork, or that of ctx.
func (p *Path) Select(ctx context.Context, text []byte, yield func(part []byte) bool) error {
	return p.selectWithin(ctx, MaxPathWork, text, yield)
}

func (p *Path) selectWithin(ctx context.Context, work int, text []byte, yield func(part []byte) bool) error {
	if !json.Valid(text) {
		return ErrNotJSON
	}
	start := skipSpace(text, 0)
	root := text[start:skipValue(text, start)]
	s := &selection{ctx: ctx, root: root, work: work}
	s.walk(root, p.segments, yield)
	return s.err
}

// selection is one run of a path over a text.
type selection struct {
	ctx  context.Context
	root []byte
	work int
	err  error
}

func (s *selection) walk(v []byte, segments []segment, yield func([]byte) bool) bool {
	if !s.step() {
		return false
	}
	if len(segments) == 0 {
		return yield(v)
	}
	here, rest := segments[0], segments[1:]
	for _, sel := range here.selectors {
		if !s.step() || !sel.apply(s, v, func(child []byte) bool { return s.walk(child, rest, yield) }) {
			return false
		}
	}
	if !here.descendant {
		return true
	}
	return s.children(v, func(_ []byte, start, end int) bool { return s.walk(v[start:end], segments, yield) })
}

// step counts a step that reads no text, and reports whether to continue.
func (s *selection) step() bool {
	if s.work -= stepWork; s.err == nil && s.work < 0 {
		s.err = ErrPathWork
	}
	return s.err == nil
}

// children is like eachChild, but counts the work of the selection.
func (s *selection) children(v []byte, visit childFunc) bool {
	s.work -= len(v)
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	return s.err == nil && eachChild(v, func(key []byte, start, end int) bool {
		s.work -= valueWork
		if s.work < 0 {
			s.err = ErrPathWork
		}
		return s.err == nil && visit(key, start, end)
	})
}

type nameSelector string

func (n nameSelector) apply(s *selection, v []byte, yield func([]byte) bool) bool {
	var found []byte
	s.children(v, func(key []byte, start, end int) bool {
		if key != nil && isKey(key, string(n)) {
			found = v[start:end]
		}
		return found == nil
	})
	if s.err != nil {
		return false
	}
	return found == nil || yield(found)
}

type wildcard struct{}

func (wildcard) apply(s *selection, v []byte, yield func([]byte) bool) bool {
	return s.children(v, func(_ []byte, start, end int) bool { return yield(v[start:end]) })
}

type indexSelector int

func (i indexSelector) apply(s *selection, v []byte, yield func([]byte) bool) bool {
	starts, ok := s.elements(v)
	at := int(i)
	if at < 0 {
		at += len(starts)
	}
	if !ok || at < 0 || at >= len(starts) {
		return ok
	}
	return yield(element(v, starts[at]))
}

// sliceSelector is start:end:step; a nil bound is left out.
type sliceSelector struct {
	start, end *int
	step       int
}

// apply follows the algorithm of RFC 9535 section 2.3.4.2.2.
func (sl sliceSelector) apply(s *selection, v []byte, yield func([]byte) bool) bool {
	starts, ok := s.elements(v)
	if !ok {
		return false
	}
	n := len(starts)
	bound := func(given *int, fallback, low, high int) int {
		at := fallback
		if given != nil {
			at = *given
			if at < 0 {
				at += n
			}
		}
		return min(max(at, low), high)
	}
	switch {
	case sl.step > 0:
		end := bound(sl.end, n, 0, n)
		for i := bound(sl.start, 0, 0, n); i < end; i += sl.step {
			if !yield(element(v, starts[i])) {
				return false
			}
		}
	case sl.step < 0:
		end := bound(sl.end, -1, -1, n-1)
		for i := bound(sl.start, n-1, -1, n-1); i > end; i += sl.step {
			if !yield(element(v, starts[i])) {
				return false
			}
		}
	}
	return true
}

// elements returns the offsets of the elements of an array, and false for another value.
func (s *selection) elements(v []byte) (starts []int, ok bool) {
	if v[0] != '[' {
		return nil, true
	}
	ok = s.children(v, func(_ []byte, start, _ int) bool {
		starts = append(starts, start)
		return true
	})
	return starts, ok
}

func element(array []byte, start int) []byte { return array[start:skipValue(array, start)] }

package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxProblems is how many problems a [Failure] lists.
const maxProblems = 20

// A Failure lists the problems of a document.
type Failure struct {
	// Problems are sorted by place, at most 20 of them.
	Problems []Problem
	// More counts the problems that are not listed.
	More int
}

// A Problem is one thing wrong with a document.
type Problem struct {
	// Pointer is the RFC 6901 pointer to the place in the document. For a
	// missing property it points to where the property should be.
	Pointer string `json:"pointer"`
	// SchemaPointer leads to the keyword of the schema that is not met. Inside a
	// meta-schema it is a whole URL.
	SchemaPointer string `json:"schema_pointer"`
	// Expected and Got describe the two sides in a few words. Got quotes at most
	// 40 characters of the document.
	Expected string `json:"expected"`
	Got      string `json:"got"`
	// Message is one line that can stand alone, such as
	// "/labels/0: expected string, got number 3".
	Message string `json:"message"`
}

// Error is one line, the messages separated by semicolons.
func (f *Failure) Error() string { return f.FirstProblems(len(f.Problems)) }

// FirstProblems is like Error, with at most n messages; the others are counted.
func (f *Failure) FirstProblems(n int) string {
	n = min(n, len(f.Problems))
	messages := make([]string, 0, n+1)
	for _, p := range f.Problems[:n] {
		messages = append(messages, p.Message)
	}
	if more := f.More + len(f.Problems) - n; more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(messages, "; ")
}

// newFailure sorts problems, drops repetitions and lists the first of them. more
// is how many there are besides.
func newFailure(problems []Problem, more int) *Failure {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(
			comparePaths(strings.Split(a.Pointer, "/"), strings.Split(b.Pointer, "/")),
			cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.SchemaPointer, b.SchemaPointer),
		)
	})
	problems = slices.CompactFunc(problems, func(a, b Problem) bool { return a.Message == b.Message })
	listed := min(len(problems), maxProblems)
	return &Failure{Problems: slices.Clone(problems[:listed]), More: more + len(problems) - listed}
}

// comparePaths orders by place, with /items/9 before /items/10.
func comparePaths(a, b []string) int {
	return slices.CompareFunc(a, b, func(left, right string) int {
		m, errM := strconv.Atoi(left)
		n, errN := strconv.Atoi(right)
		if errM == nil && errN == nil {
			return cmp.Compare(m, n)
		}
		return cmp.Compare(left, right)
	})
}

// newProblem describes what was expected at path and what came instead.
func newProblem(path []string, schemaPointer, expected, got string) Problem {
	at := pointerTo(path)
	return Problem{
		Pointer: at, SchemaPointer: schemaPointer, Expected: expected, Got: got,
		Message: fmt.Sprintf("%s: expected %s, got %s", display(at), expected, got),
	}
}

func pointerTo(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteString("/" + escape(token))
	}
	return b.String()
}

func escape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
}

// display shows a pointer in a message.
func display(pointer string) string {
	if pointer == "" {
		return "(root)"
	}
	return shorten(pointer, 120)
}

// Package pattern compiles regular expressions on first use.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that compiles an expression on first use. Otherwise every command
// and worker of the binary would wait for the compilation, and long expressions would
// cause most of the garbage at startup. The function panics if the expression is invalid.
// It is safe for concurrent use.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Package pattern holds regular expressions that most processes never use.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy compiles an expression when it is first asked for: every command and
// worker of the binary would wait for it otherwise, and those of long
// expressions make most of the garbage of its start. An expression that is none
// panics then. The function is safe for concurrent use.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Command guest is a toolroom-guest that also knows the ways out and how to break
// the rules, for tests of drivers whose guest is not the test's own binary.
package main

import (
	"os"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == escape.Arg {
		os.Exit(escape.Main(os.Args[2:]))
	}
	if code, ok := rogue.Main(os.Args[1:], guest.MainArg); ok {
		os.Exit(code)
	}
	os.Exit(guest.Main(os.Args[1:]))
}

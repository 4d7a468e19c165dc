// Command guest is a toolroom-guest that can also run the attempts of package escape and
// the conducts of package rogue, for tests of drivers whose guest is not the test's own
// binary.
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

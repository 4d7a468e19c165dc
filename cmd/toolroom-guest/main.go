// Command toolroom-guest is the guest that Toolroom starts in a sandbox. It receives a program
// over its stdin, runs it with an interpreter of the sandbox, and lets it call the tools of the
// room. It is statically linked, so it runs in any image, and as PID 1 of a VM.
package main

import (
	"os"

	"github.com/toolroom/toolroom/internal/guest"
)

func main() { os.Exit(guest.Main(os.Args[1:])) }

// Command toolroom-guest is the guest that Toolroom starts in a sandbox: it receives a
// program over its stdin and stdout, runs it with an interpreter of the sandbox, and lets
// it call the tools of the room. It is linked statically, so that it runs in any image, and
// as PID 1 of a VM.
package main

import (
	"os"

	"github.com/toolroom/toolroom/internal/guest"
)

func main() { os.Exit(guest.Main(os.Args[1:])) }

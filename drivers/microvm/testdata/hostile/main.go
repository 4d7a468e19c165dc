// Command hostile is a guest that misbehaves as its first argument says: as the first
// process of a VM (never), or as a guest (exit).
package main

import (
	"os"
	"slices"
	"time"

	"github.com/toolroom/toolroom/internal/guest/vm"
)

func main() {
	first := slices.Contains(os.Args, vm.Arg)
	switch {
	case first && os.Args[1] == "never":
		for { // Go would detect an empty select as a deadlock and exit
			time.Sleep(time.Hour)
		}
	case first:
		os.Exit(vm.Main())
	case os.Args[1] == "exit":
		os.Stderr.WriteString("last words\n")
		os.Exit(42)
	}
}

// Command hostile is a guest that breaks the rules, as its first argument says.
package main

import (
	"bytes"
	"os"
	"slices"

	"github.com/toolroom/toolroom/internal/guest/vm"
)

func main() {
	first := slices.Contains(os.Args, vm.Arg)
	switch {
	case first && os.Args[1] == "never":
		select {}
	case first:
		os.Exit(vm.Main())
	case os.Args[1] == "garbage":
		os.Stdout.Write(bytes.Repeat([]byte("\x00\x00\x00\x08garbage!"), 1000))
		select {}
	case os.Args[1] == "flood":
		for block := bytes.Repeat([]byte("flood "), 10_000); ; {
			os.Stderr.Write(block)
			if _, err := os.Stdout.Write(block); err != nil {
				return
			}
		}
	case os.Args[1] == "exit":
		os.Stderr.WriteString("last words\n")
		os.Exit(42)
	}
}

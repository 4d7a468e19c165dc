// Command builtindocs prints docs/builtins.md, or with the argument tools the definitions of
// the built-in tools in the format of toolroom bench search.
package main

import (
	"fmt"
	"os"

	"github.com/toolroom/toolroom/test/builtintest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 1 && os.Args[1] == "tools" {
		return builtintest.WriteTools(os.Stdout)
	}
	text, err := builtintest.Markdown()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}

// Command toolroom is a gateway and runtime for agent tools.
package main

import (
	"os"

	"github.com/toolroom/toolroom/internal/cli"
	"github.com/toolroom/toolroom/internal/cli/start"
)

// version is set by release builds.
var version string

func main() {
	if code, ok := start.RunHelper(); ok {
		os.Exit(code)
	}
	os.Exit(run())
}

func run() int { return start.Run(program()) }

func program() cli.Program {
	p := start.Program(version)
	p.Exec = replaceBy
	return p
}

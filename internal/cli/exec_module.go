package cli

import (
	"io"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom"
)

// moduleExt is how the name of a file with a WebAssembly module ends.
const moduleExt = ".wasm"

// moduleOf takes the file of a module from the words, where they name one, and
// gives its arguments.
func (o *execOptions) moduleOf(args []string) []string {
	if o.file != "" || len(args) == 0 {
		return args
	}
	if o.language == "wasm" || o.language == "" && filepath.Ext(args[0]) == moduleExt {
		o.file = args[0]
		return args[1:]
	}
	return args
}

// takesWords tells whether words may follow a file: they are arguments.
func (o *execOptions) takesWords() bool {
	return o.language == "command" || o.language == "wasm" || o.language == "" && filepath.Ext(o.file) == moduleExt
}

// programStdin is what a program reads.
func (a *app) programStdin(o *execOptions) (string, error) {
	if o.stdin != "-" {
		data, err := os.ReadFile(o.stdin)
		if err != nil {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "the input of the program cannot be read: %w", err)
		}
		return string(data), nil
	}
	if o.file == "-" {
		return "", usage("toolroom exec --help", "the program and its input cannot both come from stdin")
	}
	data, err := io.ReadAll(io.LimitReader(a.In, maxProgram+1))
	if err == nil && len(data) > maxProgram {
		err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the input of the program is longer than %d bytes", maxProgram)
	}
	return string(data), err
}

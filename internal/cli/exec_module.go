package cli

import (
	"io"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom"
)

// moduleExt is the file extension of WebAssembly modules.
const moduleExt = ".wasm"

// moduleOf takes the module's file from the words, if they name one, and returns the
// module's arguments.
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

// takesWords reports whether arguments may follow the file.
func (o *execOptions) takesWords() bool {
	return o.language == "command" || o.language == "wasm" || o.language == "" && filepath.Ext(o.file) == moduleExt
}

// programStdin returns the program's standard input.
func (a *cli) programStdin(o *execOptions) (string, error) {
	if o.stdin != "-" {
		data, err := os.ReadFile(a.typedPath(o.stdin))
		if err != nil {
			return "", toolroom.Errorf(toolroom.CodeNotFound, "cannot read the program's input: %w", err)
		}
		return string(data), nil
	}
	if o.file == "-" {
		return "", usage("toolroom exec --help", "the program and its input cannot both come from stdin")
	}
	data, err := io.ReadAll(io.LimitReader(a.In, maxProgram+1))
	if err == nil && len(data) > maxProgram {
		err = toolroom.Errorf(toolroom.CodeInvalidArguments, "the program's input has more than %d bytes", maxProgram)
	}
	return string(data), err
}

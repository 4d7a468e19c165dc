package cli

import (
	"errors"
	"io"
	"path/filepath"

	"github.com/toolroom/toolroom"
)

// moduleExtension is the file extension of WebAssembly modules.
const moduleExtension = ".wasm"

// takeModule sets the file from the first argument if that names a WebAssembly module, and
// returns the other arguments.
func (o *execOptions) takeModule(args []string) []string {
	if o.file != "" || len(args) == 0 {
		return args
	}
	if o.language == "wasm" || o.language == "" && filepath.Ext(args[0]) == moduleExtension {
		o.file = args[0]
		return args[1:]
	}
	return args
}

// acceptsArguments reports whether arguments may follow the file.
func (o *execOptions) acceptsArguments() bool {
	return o.language == "command" || o.language == "wasm" || o.language == "" && filepath.Ext(o.file) == moduleExtension
}

// programStdin returns the program's standard input.
func (a *cli) programStdin(o *execOptions) (string, error) {
	if o.stdin != "-" {
		data, err := readFile(a.typedPath(o.stdin), maxProgram)
		if errors.Is(err, errTooLarge) {
			return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the program's input has more than %d bytes", maxProgram)
		}
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

// Package prelude is the JavaScript that runs before every JavaScript program, on any
// engine: the encoding of values, the frames of the bridge, and the global variables
// of programs. It uses the engine only through the object __hostFunctions.
package prelude

import (
	"embed"
	"strings"
)

//go:embed *.js
var files embed.FS

// Name is the file name under which the prelude is evaluated, so that stack traces
// can omit it.
const Name = "toolroom:prelude"

// JavaScript returns the prelude's source: its files, in order, in a scope of their
// own.
func JavaScript() string {
	var b strings.Builder
	b.WriteString("(() => {\n")
	list, _ := files.ReadDir(".") // the embedded folder always exists
	for _, f := range list {
		text, _ := files.ReadFile(f.Name())
		b.Write(text)
	}
	b.WriteString("})();\n")
	return b.String()
}

// Package prelude is the JavaScript that runs before every JavaScript program,
// whatever engine runs it: values and frames of the bridge, and what the author
// finds. It reaches the engine through the object __doors alone.
package prelude

import (
	"embed"
	"strings"
)

//go:embed *.js
var files embed.FS

// Name is the file name by which the prelude is evaluated, so that tracebacks
// can leave it out.
const Name = "toolroom:prelude"

// JavaScript is the prelude's source: its files, in order, in one scope of
// their own.
func JavaScript() string {
	var b strings.Builder
	b.WriteString("(() => {\n")
	list, _ := files.ReadDir(".") // a folder that is built in
	for _, f := range list {
		text, _ := files.ReadFile(f.Name())
		b.Write(text)
	}
	b.WriteString("})();\n")
	return b.String()
}

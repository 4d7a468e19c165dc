package quickjs

import (
	"embed"
	"strings"
)

//go:embed prelude/*.js
var preludeFiles embed.FS

// Prelude returns the JavaScript that runs before every JavaScript program, on any engine:
// the encoding of values, the frames of the bridge, and the global variables of programs. It
// is its files, in order, in a scope of their own. It uses the engine only through the object
// __hostFunctions.
func Prelude() string {
	var b strings.Builder
	b.WriteString("(() => {\n")
	list, _ := preludeFiles.ReadDir("prelude") // the embedded folder always exists
	for _, f := range list {
		text, _ := preludeFiles.ReadFile("prelude/" + f.Name())
		b.Write(text)
	}
	b.WriteString("})();\n")
	return b.String()
}

package js

import (
	"embed"
	"strings"
)

//go:embed guest/*.js
var guest embed.FS

// prelude is what every isolate has run before a program: the files of the
// folder guest, in order, in one scope of their own.
func prelude() string {
	var b strings.Builder
	b.WriteString("(() => {\n")
	files, _ := guest.ReadDir("guest") // a folder that is built in
	for _, f := range files {
		text, _ := guest.ReadFile("guest/" + f.Name())
		b.Write(text)
	}
	b.WriteString("})();\n")
	return b.String()
}

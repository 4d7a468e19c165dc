// Package errorpages holds a page for each error code: what happened, why, what to do and an
// example.
package errorpages

import (
	"embed"

	"github.com/toolroom/toolroom"
)

//go:embed *.md
var pages embed.FS

// Page returns the page about a code, in Markdown. It is empty for an unknown code.
func Page(code toolroom.Code) string {
	text, err := pages.ReadFile(string(code) + ".md")
	if err != nil {
		return ""
	}
	return string(text)
}

package cli

import (
	"strings"

	"github.com/toolroom/toolroom/internal/code"
)

// whole tells whether a text that is typed line by line is a whole program, or
// goes on. It need not be exact: a program that is none is refused with its
// place.
func whole(language, text string) bool {
	if full, _ := code.Language(language); full == "python" {
		return pythonWhole(text)
	}
	return closed(text)
}

// closed tells whether a text has a closing bracket for each opening one, and
// no template or block comment that goes on.
func closed(text string) bool {
	open := 0
	for at := 0; at < len(text); at++ {
		switch c := text[at]; c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		case '"', '\'', '`':
			end := quoted(text[at+1:], c)
			if end < 0 && c == '`' {
				return false
			}
			if end < 0 { // no text goes on beyond its line
				return open <= 0
			}
			at += end + 1
		case '/':
			if strings.HasPrefix(text[at:], "//") {
				end := strings.IndexByte(text[at:], '\n')
				if end < 0 {
					return open <= 0
				}
				at += end
			} else if strings.HasPrefix(text[at:], "/*") {
				end := strings.Index(text[at:], "*/")
				if end < 0 {
					return false
				}
				at += end + 1
			}
		}
	}
	return open <= 0
}

// quoted is where the text that a quote began ends, -1 if it does not.
func quoted(rest string, quote byte) int {
	for at := 0; at < len(rest); at++ {
		switch rest[at] {
		case '\\':
			at++
		case quote:
			return at
		case '\n':
			if quote != '`' {
				return -1
			}
		}
	}
	return -1
}

// pythonWhole tells whether brackets and texts are closed, and a block has been
// ended with an empty line, as in Python's own prompt.
func pythonWhole(text string) bool {
	open, block := 0, false
	last := byte('\n') // the last character of the line that is neither space nor comment
	for at := 0; at < len(text); at++ {
		switch c := text[at]; c {
		case '(', '[', '{':
			open++
			last = c
		case ')', ']', '}':
			open--
			last = c
		case '"', '\'':
			quote := text[at : at+1]
			if triple := strings.Repeat(quote, 3); strings.HasPrefix(text[at:], triple) {
				end := strings.Index(text[at+3:], triple)
				if end < 0 {
					return false
				}
				at += 3 + end + 2
			} else if end := quoted(text[at+1:], c); end >= 0 {
				at += end + 1
			}
			last = c
		case '#':
			if end := strings.IndexByte(text[at:], '\n'); end >= 0 {
				at += end - 1
			} else {
				at = len(text)
			}
		case '\n':
			block = block || open <= 0 && last == ':'
			last = c
		case ' ', '\t', '\r':
		default:
			block = block || c == '@' && last == '\n'
			last = c
		}
	}
	if open > 0 || last == '\\' {
		return false
	}
	return !(block || last == ':') || strings.HasSuffix(text, "\n")
}

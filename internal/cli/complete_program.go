package cli

import (
	"strings"

	"github.com/toolroom/toolroom/internal/code"
)

// isComplete reports whether typed lines form a complete program. It need not be exact, because
// the engine reports the mistake in an incomplete or invalid program.
func isComplete(language, text string) bool {
	if full, _ := code.Language(language); full == "python" {
		return isPythonComplete(text)
	}
	return isClosed(text)
}

// isClosed reports whether every opening bracket of a text is closed and no template or block
// comment is open.
func isClosed(text string) bool {
	open := 0
	for at := 0; at < len(text); at++ {
		switch c := text[at]; c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		case '"', '\'', '`':
			end := closingQuote(text[at+1:], c)
			if end < 0 && c == '`' {
				return false
			}
			if end < 0 { // strings end with the line
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

// closingQuote returns the index after the closing quote, or -1 if the text is not closed.
func closingQuote(rest string, quote byte) int {
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

// isPythonComplete reports whether brackets and strings are closed and an empty line has ended
// the block, as at Python's own prompt.
func isPythonComplete(text string) bool {
	open, block := 0, false
	last := byte('\n') // the last character of the line that is neither a space nor in a comment
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
			} else if end := closingQuote(text[at+1:], c); end >= 0 {
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

package js

import "strings"

// toolexecEdits returns the edits that change the toolexec form
// `issue := run("github:create_issue", …)` to `var issue = run(…)`. JavaScript has no :=, so it
// only has to be found outside strings, templates, comments and regular expressions. With var, a
// name can be declared twice, as the form allows.
func toolexecEdits(source string) []edit {
	if !strings.Contains(source, ":=") {
		return nil
	}
	var edits []edit
	last := byte(0) // ignoring spaces and comments
	for at := 0; at < len(source); {
		end, comment := skipQuoted(source, at, last)
		if end == at {
			if strings.HasPrefix(source[at:], ":=") {
				if name := nameBefore(source, at); name >= 0 {
					edits = append(edits, edit{name, 0, "var "}, edit{at, 2, "="})
				}
				at++
			}
			end = at + 1
		}
		if !comment && !strings.ContainsRune(" \t\r\n", rune(source[end-1])) {
			last = source[end-1]
		}
		at = end
	}
	return edits
}

// nameBefore returns where the name before an offset begins, -1 if there is none.
func nameBefore(source string, at int) int {
	end := len(strings.TrimRight(source[:at], " \t"))
	start := end
	for start > 0 && isNamePart(source[start-1]) {
		start--
	}
	if start == end || start > 0 && source[start-1] == '.' {
		return -1
	}
	return start
}

func isNamePart(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}

// skipQuoted returns the end of the string, template, comment or regular expression
// that begins at an offset, or the offset itself.
func skipQuoted(source string, at int, last byte) (end int, comment bool) {
	rest := source[at:]
	switch {
	case strings.HasPrefix(rest, "//"):
		if end := strings.IndexByte(rest, '\n'); end >= 0 {
			return at + end, true
		}
		return len(source), true
	case strings.HasPrefix(rest, "/*"):
		if end := strings.Index(rest[2:], "*/"); end >= 0 {
			return at + 2 + end + 2, true
		}
		return len(source), true
	case rest[0] == '"' || rest[0] == '\'' || rest[0] == '`', rest[0] == '/' && !endsValue(last):
		return closingQuote(source, at, rest[0]), false
	}
	return at, false
}

// endsValue reports whether a value ends with this byte. A / after a value is a division, and
// elsewhere it begins a regular expression.
func endsValue(last byte) bool {
	return isNamePart(last) || strings.IndexByte(")]}\"'`", last) >= 0
}

// closingQuote returns the offset after the closing quote of what begins at an
// offset. It skips the ${} of a template.
func closingQuote(source string, at int, quote byte) int {
	for i := at + 1; i < len(source); i++ {
		switch {
		case source[i] == '\\':
			i++
		case source[i] == quote:
			return i + 1
		case source[i] == '\n' && quote != '`':
			return i
		}
	}
	return len(source)
}

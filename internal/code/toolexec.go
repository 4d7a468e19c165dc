package code

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pattern"
)

// toolexecStatement matches a statement of the toolexec form:
// issue := run("github:create_issue", {title: "Bug"}).
var toolexecStatement = pattern.Lazy(`^[ \t]*[A-Za-z_]\w*[ \t]*:=[ \t]*run\(`)

// toolexecLine returns the line of the first toolexec statement, or 0 if there is none. A
// match inside brackets or a string does not count, because it may be Python.
func toolexecLine(source string) int {
	depth, line, start := 0, 1, true
	for at := 0; at < len(source); at++ {
		if start && depth == 0 && toolexecStatement().MatchString(source[at:]) {
			return line
		}
		start = false
		switch c := source[at]; c {
		case '\n':
			line, start = line+1, true
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case '#':
			end := strings.IndexByte(source[at:], '\n')
			if end < 0 {
				end = len(source) - at
			}
			at += max(end-1, 0)
		case '"', '\'':
			quote := source[at : at+1]
			if strings.HasPrefix(source[at:], strings.Repeat(quote, 3)) {
				quote = strings.Repeat(quote, 3)
			}
			end := at + len(quote)
			for end < len(source) && !strings.HasPrefix(source[end:], quote) && (len(quote) == 3 || source[end] != '\n') {
				if source[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(source))
			line += strings.Count(source[at:end], "\n")
			at = end + len(quote) - 1
			if end < len(source) && source[end] == '\n' {
				at = end - 1
			}
		}
	}
	return 0
}

// correctLanguage changes the language of a program that was sent as Python to JavaScript, if
// it has a toolexec statement. It returns an error if the session or engine forbids that.
func (s *Service) correctLanguage(r *Request) error {
	if r.Language != "python" || !strings.Contains(r.Code, ":=") {
		return nil
	}
	line := toolexecLine(r.Code)
	if line == 0 {
		return nil
	}
	name, _ := splitRuntime(r.Runtime)
	if name == "" {
		name = r.Engine
	}
	for _, e := range s.o.Engines {
		if r.Session != "" || e.Name() == name && !slices.Contains(e.Languages(), "javascript") {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "line %d is of the form name := run(…), which is JavaScript and not Python", line).
				WithHint("send it as language javascript, or write name = run(…) with arguments in a dict")
		}
	}
	r.Language, r.toolexecLine = "javascript", line
	return nil
}

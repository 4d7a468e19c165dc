package program

import (
	"fmt"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// modules are those that Monty 1.4.0 has.
var modules = set(` __future__ asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json math os
pathlib posixpath random re sys time tomllib typing unicodedata`)

// absent are the builtins of Python that Monty 1.4.0 has not.
var absent = set(` BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError
ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError ExceptionGroup FloatingPointError
FutureWarning GeneratorExit IOError ImportWarning IndentationError InterruptedError PendingDeprecationWarning ProcessLookupError ReferenceError
ResourceWarning RuntimeWarning StopAsyncIteration SyntaxWarning SystemError SystemExit TabError UnicodeError UnicodeTranslateError UnicodeWarning
UserWarning Warning __build_class__ __builtins__ __import__ __loader__ aiter anext ascii breakpoint bytearray callable classmethod compile copyright
credits delattr dir exit globals help input issubclass license memoryview object quit staticmethod super vars`)

// idioms are the classes that a failed tool raises if the program does not name ToolError.
var idioms = set(` LookupError ValueError PermissionError TimeoutError OSError NotADirectoryError`)

func set(names string) map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		m[name] = true
	}
	return m
}

// surrogate reports whether a literal has an escape of half a surrogate pair.
func surrogate(literal string) bool {
	quote := strings.IndexAny(literal, `"'`)
	if quote < 0 || strings.ContainsAny(literal[:quote], "rRbB") {
		return false
	}
	for i := quote; i < len(literal)-5; i++ {
		if literal[i] != '\\' {
			continue
		}
		i++ // whatever is escaped, a backslash too
		digits, ok := strings.CutPrefix(literal[i:], "u")
		if !ok {
			digits, ok = strings.CutPrefix(literal[i:], "U0000")
		}
		if ok && len(digits) >= 2 && digits[0]|0x20 == 'd' && strings.IndexByte("89abcdefABCDEF", digits[1]) >= 0 {
			return true
		}
	}
	return false
}

// refuse finds what would fail only while Monty runs the program, when tools have been
// called. Monty's parser refuses the rest, before anything runs: inheritance, yield, del and
// other syntax that it lacks.
func (s *script) refuse(p bridge.Program, awaits bool) *problem {
	catches := s.mentions("ToolError")
	if len(s.tokens) > maxTokens {
		return &problem{s.tokens[maxTokens].start, "the program is longer than the checks before Monty take"}
	}
	searched := 0 // the end of the last line that was searched for surrogates
	for i, t := range s.tokens {
		what := ""
		switch {
		case t.kind == text && surrogate(t.text), t.kind == template && s.surrogateAfter(t.start, &searched):
			what = "half a surrogate pair" // Monty makes U+FFFD of it
		case t.kind == number && strings.HasSuffix(strings.ToLower(t.text), "j") && !strings.HasPrefix(t.text, "0x"):
			what = "a complex number"
		case t.kind == word:
			what = s.refuseWord(i, awaits)
			if what == "" && catches && s.free(i) && idioms[t.text] {
				what = "ToolError beside " + t.text
			}
			if what == "" && len(p.Stdin) > 0 && t.text == "stdin" {
				what = "standard input"
			}
		}
		if what != "" {
			line, _ := position(s.source, t.start)
			return &problem{t.start, fmt.Sprintf("%s, in line %d, is not in the part of Python that Monty runs", what, line)}
		}
	}
	return nil
}

// surrogateAfter reports whether the rest of the line behind the beginning of an f-string has
// such an escape. It searches a line once, and notes in searched how far.
func (s *script) surrogateAfter(at int, searched *int) bool {
	quote := strings.IndexAny(s.source[at:], `"'`)
	if at < *searched || quote < 0 || strings.ContainsAny(s.source[at:at+quote], "rR") {
		return false
	}
	line, _, _ := strings.Cut(s.source[at:], "\n")
	*searched = at + len(line)
	return surrogate(line)
}

func (s *script) refuseWord(i int, awaits bool) string {
	t := s.tokens[i]
	next := s.at(i + 1)
	switch {
	case t.first && (t.text == "import" || t.text == "from"):
		return s.refuseImport(i)
	case t.text == "sys" && next.is(".") && (s.at(i+2).is("exit") || s.at(i+2).is("exc_info") || s.at(i+2).is("stdin")):
		return "sys." + s.at(i+2).text
	case awaits && (t.text == "text" || t.text == "lines" || t.text == "json") && s.at(i-1).is(".") && next.is("(") && s.at(i-2).is(")") && s.awaitedCommand(i-2):
		return "await of ." + t.text + "() of a command"
	case absent[t.text] && s.free(i) && !s.rebound[t.text]:
		return t.text
	}
	return ""
}

// awaitedCommand reports whether the brackets that end at i are those of a call
// of a tool, and not those around an await.
func (s *script) awaitedCommand(i int) bool {
	open := s.pair[i]
	return s.at(open-1).kind == word && s.at(open-2).is(".")
}

// refuseImport looks at the modules of an import.
func (s *script) refuseImport(i int) string {
	expect := true // of a module's name
	for j := i + 1; j < len(s.tokens) && s.tokens[j].kind != newline; j++ {
		t := s.tokens[j]
		switch {
		case t.is(".") && expect:
			return "" // Python refuses a relative import, too
		case t.kind == word && expect:
			if !modules[t.text] {
				return "the module " + t.text
			}
			expect = false
		case t.is(",") && s.tokens[i].text == "import":
			expect = true
		}
	}
	return ""
}

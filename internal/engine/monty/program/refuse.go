package program

import (
	"fmt"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// supportedModules are the modules that Monty 1.4.0 has.
var supportedModules = wordSet(` __future__ asyncio base64 binascii bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json math os
pathlib posixpath random re sys time tomllib typing unicodedata`)

// missingBuiltins are the builtins of Python that Monty 1.4.0 lacks.
var missingBuiltins = wordSet(` BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning ChildProcessError ConnectionAbortedError ConnectionError
ConnectionRefusedError ConnectionResetError DeprecationWarning EOFError EncodingWarning EnvironmentError ExceptionGroup FloatingPointError
FutureWarning GeneratorExit IOError ImportWarning IndentationError InterruptedError PendingDeprecationWarning ProcessLookupError ReferenceError
ResourceWarning RuntimeWarning StopAsyncIteration SyntaxWarning SystemError SystemExit TabError UnicodeError UnicodeTranslateError UnicodeWarning
UserWarning Warning __build_class__ __builtins__ __import__ __loader__ aiter anext ascii breakpoint bytearray callable classmethod compile copyright
credits delattr dir exit globals help input issubclass license memoryview object quit staticmethod super vars`)

// toolErrorClasses are the exception classes that a failed tool raises if the program does not
// mention ToolError.
var toolErrorClasses = wordSet(` LookupError ValueError PermissionError TimeoutError OSError NotADirectoryError`)

func wordSet(names string) map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		m[name] = true
	}
	return m
}

// hasSurrogateEscape reports whether a literal has an escape of half a surrogate pair.
func hasSurrogateEscape(literal string) bool {
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

// findUnsupported returns the first feature that would fail only while Monty runs the program,
// when tools may have been called. Other unsupported features (inheritance, yield, del and
// other syntax) are refused by Monty's parser before the program runs.
func (s *script) findUnsupported(p bridge.Program, awaits bool) *problem {
	catches := s.mentions("ToolError")
	if len(s.tokens) > maxTokens {
		return &problem{s.tokens[maxTokens].start, "the program is longer than the checks before Monty take"}
	}
	searched := 0 // the end of the last line that was searched for surrogates
	for i, t := range s.tokens {
		what := ""
		switch {
		case t.kind == text && hasSurrogateEscape(t.text), t.kind == template && s.restOfLineHasSurrogate(t.start, &searched):
			what = "half a surrogate pair" // Monty makes U+FFFD of it
		case t.kind == number && strings.HasSuffix(strings.ToLower(t.text), "j") && !strings.HasPrefix(t.text, "0x"):
			what = "a complex number"
		case t.kind == word:
			what = s.unsupportedWord(i, awaits)
			if what == "" && catches && s.isBareName(i) && toolErrorClasses[t.text] {
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

// restOfLineHasSurrogate reports whether the rest of the line after the beginning of an f-string
// has an escape of half a surrogate pair. It searches a line only once: searched is the end of
// the last line that it has searched.
func (s *script) restOfLineHasSurrogate(at int, searched *int) bool {
	quote := strings.IndexAny(s.source[at:], `"'`)
	if at < *searched || quote < 0 || strings.ContainsAny(s.source[at:at+quote], "rR") {
		return false
	}
	line, _, _ := strings.Cut(s.source[at:], "\n")
	*searched = at + len(line)
	return hasSurrogateEscape(line)
}

// unsupportedWord returns the unsupported feature that the word at i begins, or "".
func (s *script) unsupportedWord(i int, awaits bool) string {
	t := s.tokens[i]
	next := s.at(i + 1)
	switch {
	case t.first && (t.text == "import" || t.text == "from"):
		return s.unsupportedImport(i)
	case t.text == "sys" && next.is(".") && (s.at(i+2).is("exit") || s.at(i+2).is("exc_info") || s.at(i+2).is("stdin")):
		return "sys." + s.at(i+2).text
	case awaits && (t.text == "text" || t.text == "lines" || t.text == "json") && s.at(i-1).is(".") && next.is("(") && s.at(i-2).is(")") && s.closesToolCall(i-2):
		return "await of ." + t.text + "() of a command"
	case missingBuiltins[t.text] && s.isBareName(i) && !s.rebound[t.text]:
		return t.text
	}
	return ""
}

// closesToolCall reports whether the bracket at i closes a tool call, and not the parentheses
// around an await.
func (s *script) closesToolCall(i int) bool {
	open := s.pair[i]
	return s.at(open-1).kind == word && s.at(open-2).is(".")
}

// unsupportedImport returns the first module of an import that Monty lacks, or "".
func (s *script) unsupportedImport(i int) string {
	expect := true // of a module's name
	for j := i + 1; j < len(s.tokens) && s.tokens[j].kind != newline; j++ {
		t := s.tokens[j]
		switch {
		case t.is(".") && expect:
			return "" // Python refuses a relative import, too
		case t.kind == word && expect:
			if !supportedModules[t.text] {
				return "the module " + t.text
			}
			expect = false
		case t.is(",") && s.tokens[i].text == "import":
			expect = true
		}
	}
	return ""
}

package jsonx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// A SyntaxError reports why a document was rejected, and where.
type SyntaxError struct {
	// Line and Column start at 1; Column counts code points, not bytes.
	Line, Column int
	// Pointer is the RFC 6901 pointer of the value or member at fault, empty
	// for the document itself.
	Pointer string
	// Reason is what is wrong, Hint what to do about it.
	Reason, Hint string
}

func (e *SyntaxError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at line %d, column %d", e.Reason, e.Line, e.Column)
	if e.Pointer != "" {
		fmt.Fprintf(&b, " (%s)", shorten(e.Pointer))
	}
	return b.String() + ": " + e.Hint
}

const syntaxHint = "send one valid JSON document"

// newSyntaxError returns a SyntaxError for the byte offset of data.
func newSyntaxError(data []byte, offset int, pointer, reason, hint string) *SyntaxError {
	offset = min(offset, len(data))
	before := data[:offset]
	line := before
	if i := strings.LastIndexByte(string(before), '\n'); i >= 0 {
		line = before[i+1:]
	}
	return &SyntaxError{
		Line:    1 + strings.Count(string(before), "\n"),
		Column:  1 + utf8.RuneCount(line),
		Pointer: pointer,
		Reason:  reason,
		Hint:    hint,
	}
}

// describe converts an error of jsontext about data to a SyntaxError.
func describe(data []byte, err error) *SyntaxError {
	if err == io.EOF {
		return newSyntaxError(data, len(data), "", "empty document", syntaxHint)
	}
	var syntactic *jsontext.SyntacticError
	if !errors.As(err, &syntactic) {
		return newSyntaxError(data, 0, "", err.Error(), syntaxHint)
	}
	offset, pointer := int(syntactic.ByteOffset), string(syntactic.JSONPointer)
	place := func(reason, hint string) *SyntaxError {
		return newSyntaxError(data, offset, pointer, reason, hint)
	}
	switch cause := syntactic.Err; {
	case errors.Is(cause, jsontext.ErrDuplicateName):
		name := syntactic.JSONPointer.LastToken()
		return place(fmt.Sprintf("duplicate key %q", shorten(name)), "keep one of them")
	case errors.Is(cause, io.ErrUnexpectedEOF):
		return place("the document ends too early", "send it whole, with every string, array and object closed")
	case offset < len(data) && !startsWithRune(data[offset:]):
		return place("invalid UTF-8", "encode the text as UTF-8")
	case endsWithComma(data, offset):
		return place("comma before a closing bracket", "remove the comma")
	default:
		return place(cause.Error(), syntaxHint)
	}
}

func startsWithRune(data []byte) bool {
	r, size := utf8.DecodeRune(data)
	return r != utf8.RuneError || size > 1
}

func endsWithComma(data []byte, offset int) bool {
	if offset >= len(data) || data[offset] != ',' {
		return false
	}
	rest := bytes.TrimLeft(data[offset+1:], " \t\r\n")
	return len(rest) > 0 && (rest[0] == ']' || rest[0] == '}')
}

// shorten truncates untrusted text for a message.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// shownText is a text of a result after truncation.
type shownText struct {
	text string
	// stored is the artifact with the whole text. Its handle is empty if nothing was stored;
	// then why is the reason.
	stored toolroom.Artifact
	why    string
}

// truncateText stores a text that is longer than limit and returns the text that is shown of it.
// The result's Hidden describes the first text that is truncated.
func (o *outcome) truncateText(name, text string, limit int) shownText {
	return o.truncateAs(name, "text/plain", text, limit)
}

// truncateAs is truncateText for a text of another MIME type.
func (o *outcome) truncateAs(name, mimeType, text string, limit int) shownText {
	s := shownText{}
	var err error
	if s.stored, err = o.storeArtifact(name, mimeType, []byte(text), false); err != nil {
		s.why = err.Error()
		if toolroom.CodeOf(err) == toolroom.CodeInternal {
			s.why = "the store failed" // its error is for the log
		}
	}
	head, hidden, tail := splitToFit(text, limit)
	s.text = head + s.note(hidden, len(head)) + tail
	if o.result.Hidden == nil {
		o.result.Hidden = &toolroom.Hidden{Bytes: int64(hidden), Handle: s.stored.Handle}
	}
	return s
}

// note returns the note that replaces hidden bytes in a text. at is the offset of the first
// of them in what was stored.
func (s shownText) note(hidden, at int) string {
	switch {
	case s.stored.Handle == "":
		return fmt.Sprintf("\n[Output truncated - %d bytes hidden; they were not kept: %s]\n", hidden, s.why)
	case int64(at+hidden) > s.stored.Size:
		return fmt.Sprintf("\n[Output truncated - %d bytes hidden; read them: artifact %s from byte %d; only the first %d bytes were kept]\n", hidden, s.stored.Handle, at, s.stored.Size)
	default:
		return fmt.Sprintf("\n[Output truncated - %d bytes hidden; read them: artifact %s from byte %d]\n", hidden, s.stored.Handle, at)
	}
}

// splitToFit splits a text that is longer than limit into a head, hidden bytes and a tail. Three
// quarters of the limit are the head and the rest is the tail; no character is split. A shorter
// text is all head.
func splitToFit(text string, limit int) (head string, hidden int, tail string) {
	if limit = max(limit, 0); len(text) <= limit {
		return text, 0, ""
	}
	to := limit * 3 / 4
	from := len(text) - (limit - to)
	to = runeStart(text, to)
	for moved := 1; moved < utf8.UTFMax && from < len(text) && !utf8.RuneStart(text[from]); moved++ {
		from++
	}
	return text[:to], from - to, text[from:]
}

// runeStart returns the offset of the character that the byte at offset at belongs to, or
// at if it belongs to none.
func runeStart(text string, at int) int {
	for begin := at; begin >= 0 && at-begin < utf8.UTFMax; begin-- {
		if utf8.RuneStart(text[begin]) {
			if _, size := utf8.DecodeRuneInString(text[begin:]); begin+size > at {
				return begin
			}
			break
		}
	}
	return at
}

// maxTruncatedMembers is the largest number of long texts of a value that are truncated
// separately.
const maxTruncatedMembers = 4

// truncateValue truncates a value that says more than the text of the result. An object that is
// long because of a few texts stays an object whose long texts are truncated. Any other value is
// truncated as the text of its JSON.
func (o *outcome) truncateValue(text string, shown shownText, limit int) {
	r := &o.result
	r.Raw = nil
	if value, ok := o.truncateMembers(text, shown, limit); ok {
		r.Value = value
		return
	}
	value := o.truncateAs("value", "application/json", string(r.Value), max(limit-len(shown.text), 0))
	r.Value = quoted(value.text)
	o.setTexts(shown.text, value.text)
}

// isLine reports whether line is text, with or without a line ending.
func isLine(line, text string) bool {
	end, ok := strings.CutPrefix(line, text)
	return ok && (end == "" || end == "\n" || end == "\r\n")
}

// truncateMembers truncates the long texts that are members of the value. It reports false if
// that does not make the value short enough.
func (o *outcome) truncateMembers(text string, shown shownText, limit int) (json.RawMessage, bool) {
	members, err := jsonx.Members(o.result.Value)
	if err != nil {
		return nil, false
	}
	texts := make([]string, len(members)) // the long ones
	rest, long := 0, 0                    // bytes of the others, number of the long ones
	repeats := -1                         // the first one that repeats the text of the result
	for i, m := range members {
		rest += len(m.Name)
		if len(m.Value) <= limit/(2*maxTruncatedMembers) || m.Value[0] != '"' || json.Unmarshal(m.Value, &texts[i]) != nil {
			rest, texts[i] = rest+len(m.Value), ""
			continue
		}
		if repeats < 0 && isLine(texts[i], text) {
			repeats = i
		} else {
			long++
		}
	}
	if rest > limit/2 || long > maxTruncatedMembers {
		return nil, false
	}
	share := (limit - rest) / max(long, 1)
	for i, whole := range texts {
		switch trimmed := strings.TrimSpace(whole); {
		case whole == "":
		case i == repeats:
			if shown.text != text {
				members[i].Value = quoted(shown.text)
			}
		case len(whole) <= share:
		case shown.text != text && strings.Contains(text, trimmed): // it is stored as part of the text
			head, hidden, tail := splitToFit(trimmed, share)
			members[i].Value = quoted(head + shown.note(hidden, strings.Index(text, trimmed)+len(head)) + tail)
		default:
			members[i].Value = quoted(o.truncateText(members[i].Name, whole, share).text)
		}
	}
	object := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			object = append(object, ',')
		}
		object = append(append(object, quoted(m.Name)...), ':')
		object = append(object, m.Value...)
	}
	return append(object, '}'), true
}

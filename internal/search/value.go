package search

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A query says what to do, and often with what: a file, an address, a text in quotes. The
// words in such a value are not those of the request ("config.json" asks for no settings),
// so that they count less; what kind of value it is counts instead.
const (
	valueWeight = 0.4 // of a word in a value
	kindWeight  = 0.6 // of the kind of a value
)

// The kinds of values that the look of a word tells.
const (
	fileKind    = "file"
	addressKind = "url"
)

// values splits a query into what it says and the values in it, and returns their kinds.
func values(text string) (said, named string, kinds []string) {
	var rest, inside strings.Builder
	for text != "" {
		if quoted, after, ok := cutQuoted(text); ok && rest.Len() > 0 {
			inside.WriteString(quoted + " ")
			text = after
			continue
		}
		end := strings.IndexFunc(text, unicode.IsSpace)
		if end < 0 {
			end = len(text)
		}
		word := text[:end]
		if kind := kindOf(strings.TrimFunc(word, unicode.IsPunct)); kind == "" {
			rest.WriteString(word)
		} else {
			inside.WriteString(word + " ")
			kinds = append(kinds, kind)
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		rest.WriteByte(' ')
		text = text[end+size:]
	}
	return rest.String(), inside.String(), kinds
}

// maxQuoted bounds in bytes how far the end of a quote is sought.
const maxQuoted = 512

// quotes are those that end a text which begins with them.
var quotes = map[rune]rune{'"': '"', '\'': '\'', '`': '`', '“': '”', '‘': '’', '«': '»', '„': '“'}

// cutQuoted cuts a text in quotes off the beginning of another.
func cutQuoted(text string) (quoted, after string, ok bool) {
	first, size := utf8.DecodeRuneInString(text)
	last, ok := quotes[first]
	if !ok {
		return "", "", false
	}
	inside := text[size:min(len(text), size+maxQuoted)]
	for at, r := range inside {
		if r != last {
			continue
		}
		after := text[size+at+utf8.RuneLen(r):]
		// In an apostrophe a letter follows.
		if next, _ := utf8.DecodeRuneInString(after); !unicode.IsLetter(next) {
			return inside[:at], after, at > 0
		}
	}
	return "", "", false
}

// kindOf returns the kind of a word that is a value, or nothing.
func kindOf(word string) string {
	if strings.Contains(word, "://") || strings.HasPrefix(word, "www.") {
		return addressKind
	}
	host, path, _ := strings.Cut(word, "/")
	if strings.Contains(host, "@") {
		return ""
	}
	dot := strings.LastIndexByte(host, '.')
	if dot > 0 && domains[strings.ToLower(host[dot+1:])] {
		return addressKind
	}
	if path != "" {
		host = path[strings.LastIndexByte(path, '/')+1:]
		dot = strings.LastIndexByte(host, '.')
	}
	// An ending has a letter, as 2.5 and v1.2 have not, and the name more than one (e.g.).
	if dot >= 0 && len(host)-dot-1 <= 6 && dot > 1 && isName(host[dot+1:]) {
		return fileKind
	}
	return ""
}

var domains = set("com org net io dev edu gov co uk de example app ai")

func isName(ending string) bool {
	return ending != "" && unicode.IsLetter(rune(ending[0])) && strings.IndexFunc(ending, func(r rune) bool { return !inWord(r) }) < 0
}

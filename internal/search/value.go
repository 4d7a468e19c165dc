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
	kindWeight  = 0.8 // of the kind of a value
)

// The kinds of values that the look of a word tells.
const (
	fileKind    = "file"
	addressKind = "url"
	symbolKind  = "function"
	commitKind  = "commit"
)

// fileNames are names of files that have no ending. They are words, too.
var fileNames = wordSet("readme license changelog contributing makefile dockerfile containerfile jenkinsfile vagrantfile procfile gemfile rakefile codeowners gitignore dockerignore")

// splitValues splits a query into what it says and the values in it, and returns their kinds.
func splitValues(text string) (said, named string, kinds []string) {
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
		bare := strings.TrimFunc(word, unicode.IsPunct)
		kind := kindOf(bare)
		if kind == "" {
			kind = kindOfMarked(strings.TrimRight(word, ".,;:!?'\"`"))
		}
		switch {
		case fileNames[strings.ToLower(bare)]:
			kinds = append(kinds, fileKind)
			rest.WriteString(word)
		case kind == "":
			rest.WriteString(word)
		default:
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
	if name, _, _ := strings.Cut(host, ":"); name == "localhost" {
		return addressKind
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
	switch {
	case path == "" && isSymbol(word):
		return symbolKind
	case isHash(word):
		return commitKind
	}
	return ""
}

// kindOfMarked returns the kind that the marks around a word tell: run() is a name in a program;
// ./bin, src/ and a/b/c are paths.
func kindOfMarked(word string) string {
	if name, ok := strings.CutSuffix(word, "()"); ok && isName(name) {
		return symbolKind
	}
	for _, start := range []string{"./", "../", "~/", "/"} {
		if strings.HasPrefix(word, start) && len(word) > len(start) {
			return fileKind
		}
	}
	if word != "" && unicode.IsLetter(rune(word[0])) && (strings.HasSuffix(word, "/") || strings.Count(word, "/") > 1) {
		return fileKind
	}
	return ""
}

// isSymbol reports whether a word is spelled as names in programs are: sendEmail, MAX_SIZE.
// YouTube and iPhone are not.
func isSymbol(word string) bool {
	is := false
	for i, r := range word {
		switch {
		case r == '_':
			is = is || i > 0
		case !isWordRune(r):
			return false
		case unicode.IsUpper(r):
			is = is || i > 1 && strings.IndexFunc(word[:i], unicode.IsUpper) < 0
		}
	}
	return is
}

// isHash reports whether a word is the hash of a commit, whole or its beginning.
func isHash(word string) bool {
	return 7 <= len(word) && len(word) <= 40 && strings.Trim(word, "0123456789abcdef") == "" &&
		strings.ContainsAny(word, "0123456789") && strings.ContainsAny(word, "abcdef")
}

var domains = wordSet("com org net io dev edu gov co uk de example app ai")

func isName(ending string) bool {
	return ending != "" && unicode.IsLetter(rune(ending[0])) && strings.IndexFunc(ending, func(r rune) bool { return !isWordRune(r) }) < 0
}

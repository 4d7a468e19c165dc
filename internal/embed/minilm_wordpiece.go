package embed

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Bounds of a vocabulary. BERT's has 30,522 pieces.
const (
	maxVocabulary = 4 << 20 // bytes
	maxWordRunes  = 100     // longer words are unknown, as in BERT's own tokenizer
)

// A tokenizer splits text as BERT's uncased tokenizer does: at spaces and
// punctuation, then each word into the longest pieces of the vocabulary.
type tokenizer struct {
	pieces           map[string]int32
	start, end, none int32 // [CLS], [SEP], [UNK]
}

func readVocabulary(path string, size int) (*tokenizer, error) {
	data, err := readSmall(path, maxVocabulary)
	if err != nil {
		return nil, err
	}
	t := &tokenizer{pieces: make(map[string]int32, size)}
	n := 0
	for line := range bytes.Lines(data) {
		t.pieces[strings.TrimRight(string(line), "\r\n")] = int32(n)
		n++
	}
	if n != size {
		return nil, fmt.Errorf("%s: %d pieces, but config.json has vocab_size %d", path, n, size)
	}
	for piece, id := range map[string]*int32{"[CLS]": &t.start, "[SEP]": &t.end, "[UNK]": &t.none} {
		var ok bool
		if *id, ok = t.pieces[piece]; !ok {
			return nil, fmt.Errorf("%s lacks the piece %s", path, piece)
		}
	}
	return t, nil
}

// encode returns the pieces of a text between [CLS] and [SEP], at most limit.
func (t *tokenizer) encode(text string, limit int) []int32 {
	// No piece is shorter than a byte, but control characters and spaces are dropped.
	// What is beyond this cannot matter in any honest text.
	text = strings.ToValidUTF8(text[:min(len(text), 64*limit)], "")
	ids := []int32{t.start}
	for _, word := range splitWords(text) {
		if ids = t.appendPieces(ids, word); len(ids) >= limit {
			ids = ids[:limit-1]
			break
		}
	}
	return append(ids, t.end)
}

func (t *tokenizer) appendPieces(ids []int32, word []rune) []int32 {
	if len(word) > maxWordRunes {
		return append(ids, t.none)
	}
	before := len(ids)
	for start := 0; start < len(word); {
		prefix := ""
		if start > 0 {
			prefix = "##"
		}
		end := len(word)
		for ; end > start; end-- {
			if id, ok := t.pieces[prefix+string(word[start:end])]; ok {
				ids = append(ids, id)
				break
			}
		}
		if end == start {
			return append(ids[:before], t.none)
		}
		start = end
	}
	return ids
}

func splitWords(text string) [][]rune {
	var words [][]rune
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words, word = append(words, word), nil
		}
	}
	for _, r := range norm.NFD.String(text) {
		switch {
		case r == 0, r == unicode.ReplacementChar, unicode.Is(unicode.Mn, r):
		case unicode.IsSpace(r):
			flush()
		case unicode.Is(unicode.C, r):
		case isPunctuation(r), isIdeograph(r):
			flush()
			words = append(words, []rune{unicode.ToLower(r)})
		default:
			word = append(word, unicode.ToLower(r))
		}
	}
	flush()
	return words
}

func isPunctuation(r rune) bool {
	if r < unicode.MaxASCII {
		return r > ' ' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}
	return unicode.IsPunct(r)
}

// isIdeograph reports whether BERT takes r for a word of its own.
func isIdeograph(r rune) bool {
	return r >= 0x3400 && (r <= 0x4DBF || r >= 0x4E00 && r <= 0x9FFF || r >= 0xF900 && r <= 0xFAFF ||
		r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2CEAF || r >= 0x2F800 && r <= 0x2FA1F)
}

package artifact

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// A line longer than pieceSize is read in pieces, which overlap so that matches
// of up to overlap bytes are found wherever they lie.
const (
	pieceSize = 64 << 10
	overlap   = 1 << 10
)

// piece is a line, or a part of one that is too long.
type piece struct {
	number int64 // of the line, from 1
	offset int64 // of text
	text   []byte
	first  bool // the line begins here
	own    int  // length of the part of text that the next piece does not repeat
}

// contextExcerpt returns the beginning of the piece, as it is shown for context.
func (p *piece) contextExcerpt() excerpt {
	return p.excerpt(0, runeStart(p.text, min(maxShownLine, len(p.text))), false)
}

func (p *piece) excerpt(from, to int, match bool) excerpt {
	text := string(p.text[from:to])
	if from > 0 || !p.first {
		text = "…" + text
	}
	if to < len(p.text) || p.own < len(p.text) {
		text += "…"
	}
	return excerpt{p.number, p.offset + int64(from), text, match}
}

// pieces reads a text line by line, in constant memory.
type pieces struct {
	r       *bufio.Reader
	buf     []byte
	carried int   // length of the end of buf with which the next piece begins
	number  int64 // of the line read last
	offset  int64 // of the next piece
}

func newPieces(r io.Reader) *pieces { return &pieces{r: bufio.NewReaderSize(r, pieceSize)} }

// next returns io.EOF after the last piece. The text of a piece holds until the
// next call.
func (ps *pieces) next() (piece, error) {
	first := ps.carried == 0
	if first {
		ps.number++
	}
	chunk, err := ps.r.ReadSlice('\n')
	ps.buf = append(ps.buf[:0], ps.buf[len(ps.buf)-ps.carried:]...)
	ps.buf = append(ps.buf, chunk...)
	ps.carried = 0
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		ps.carried = overlap
	case errors.Is(err, io.EOF) && len(ps.buf) > 0:
	case err != nil:
		return piece{}, err
	}
	p := piece{ps.number, ps.offset, bytes.TrimRight(ps.buf, "\r\n"), first, len(ps.buf) - ps.carried}
	ps.offset += int64(p.own)
	return p, nil
}

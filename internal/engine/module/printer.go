package module

import (
	"bytes"
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
)

// maxPrinted is how many bytes of a module's output are sent at once.
const maxPrinted = 32 << 10

// printer buffers the output of a module, which may come byte by byte, and keeps the
// order of its two streams.
type printer struct {
	emit   func(body bridge.Map) error
	stream string
	text   []byte
}

// write adds output of a stream.
func (p *printer) write(stream string, data []byte) error {
	if stream != p.stream {
		if err := p.end(); err != nil {
			return err
		}
		p.stream = stream
	}
	for len(data) > 0 {
		n := min(len(data), maxPrinted)
		p.text, data = append(p.text, data[:n]...), data[n:]
		if len(p.text) < maxPrinted {
			break
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush sends the buffered text, except for an incomplete character at its end,
// which waits for the rest.
func (p *printer) flush() error { return p.send(completeRunes(p.text)) }

// end sends all buffered text.
func (p *printer) end() error { return p.send(len(p.text)) }

// send sends the first n bytes of the text.
func (p *printer) send(size int) error {
	if size == 0 {
		return nil
	}
	body := bridge.Map{{Key: "stream", Value: p.stream}, {Key: "text", Value: string(bytes.ToValidUTF8(p.text[:size], []byte("\uFFFD")))}}
	p.text = append(p.text[:0], p.text[size:]...)
	return p.emit(body)
}

// completeRunes returns the length of a text up to an incomplete character at its end.
func completeRunes(text []byte) int {
	for cut := 1; cut < utf8.UTFMax && cut <= len(text); cut++ {
		last := text[len(text)-cut:]
		if utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return len(text) - cut
			}
			break
		}
	}
	return len(text)
}

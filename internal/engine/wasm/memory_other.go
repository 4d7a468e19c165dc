//go:build !linux

package wasm

import "fmt"

// Pagemap reads which pages a process has written. Only Linux has one.
type Pagemap struct{}

// OpenPagemap returns nil: a reset copies the whole image here.
func OpenPagemap() (*Pagemap, error) { return nil, nil }

// Close does nothing.
func (p *Pagemap) Close() error { return nil }

// Memory is one linear memory. It implements wazero's LinearMemory. It must
// not be used by two goroutines at once.
type Memory struct {
	// Limit bounds the memory of the current run, in bytes.
	Limit uint64
	// Refused reports whether the guest has asked for more.
	Refused bool

	content []byte
	image   *Image
}

// NewMemory returns a memory of at most limit bytes.
func NewMemory(limit uint64, _ *Pagemap) (*Memory, error) { return &Memory{Limit: limit}, nil }

// Reallocate grows the memory to size bytes; or returns nil if the limit is reached,
// which the guest sees as exhausted memory.
func (m *Memory) Reallocate(size uint64) []byte {
	if size > m.Limit {
		m.Refused = true
		return nil
	}
	if grown := int(size) - len(m.content); grown > 0 {
		m.content = append(m.content, make([]byte, grown)...)
	}
	return m.content
}

// Free frees the memory.
func (m *Memory) Free() { m.content = nil }

// Image is the content of a memory at one moment. It may be shared.
type Image struct{ data []byte }

// Freeze takes an image of the memory's content.
func (m *Memory) Freeze() (*Image, error) {
	return &Image{append([]byte{}, m.content...)}, nil
}

// Bytes returns the image itself, which must not be modified.
func (i *Image) Bytes() []byte { return i.data }

// Close does nothing: an image is plain memory here.
func (i *Image) Close() error { return nil }

// Adopt makes the memory a copy of the image, which must be as large.
func (m *Memory) Adopt(image *Image) error {
	if len(image.data) != len(m.content) {
		return fmt.Errorf("a memory of %d bytes cannot adopt an image of %d", len(m.content), len(image.data))
	}
	m.image = image
	copy(m.content, image.data)
	return nil
}

// Reset resets the memory to the image that it adopted. The number of copied pages
// is not known: it returns -1.
func (m *Memory) Reset() (int, error) {
	if len(m.content) != len(m.image.data) {
		return 0, ErrGrown
	}
	copy(m.content, m.image.data)
	return -1, nil
}

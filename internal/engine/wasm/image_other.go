//go:build !linux

package wasm

import (
	"fmt"
	"io"
	"os"
)

// OpenImage opens an image that [Image.Save] has written, and returns its note.
func OpenImage(path string) (*Image, []byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	size := len(data) / PageSize * PageSize
	if size == 0 {
		return nil, nil, fmt.Errorf("open the image %s: %w", path, io.ErrUnexpectedEOF)
	}
	return &Image{data[:size:size]}, data[size:], nil
}

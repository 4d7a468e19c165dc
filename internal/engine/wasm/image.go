package wasm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Save writes the image to a file, atomically, followed by a note of less than
// [PageSize] bytes. On file systems with holes, pages of zeroes use no space.
func (i *Image) Save(path string, note []byte) error {
	if len(note) >= PageSize {
		return fmt.Errorf("save an image: a note of %d bytes", len(note))
	}
	file, err := os.CreateTemp(filepath.Dir(path), "image")
	if err != nil {
		return fmt.Errorf("save an image: %w", err)
	}
	defer os.Remove(file.Name()) // if it has not been moved
	err = writeHoles(file, i.Bytes())
	if err == nil {
		_, err = file.WriteAt(note, int64(len(i.Bytes())))
	}
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("save an image: %w", err)
	}
	return nil
}

// holeSize is the unit in which zeroes are skipped: a page of most processors.
const holeSize = 4 << 10

func writeHoles(to io.WriterAt, content []byte) error {
	var zero [holeSize]byte
	for at := 0; at < len(content); at += holeSize {
		if piece := content[at : at+holeSize]; string(piece) != string(zero[:]) {
			if _, err := to.WriteAt(piece, int64(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

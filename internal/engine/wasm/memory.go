package wasm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A [Memory] is reset, exactly, to an [Image] taken once: start an engine, take its image,
// and every run begins from the same bytes.
//
// On Linux the image is a memory file that instances map privately, so that they share
// unwritten pages. The kernel's page map says which pages were written, and only those are
// copied back. Without a page map the written pages are dropped, and on other systems the
// whole image is copied, which is slower and as exact.

// ErrGrown means that a memory is larger than its image and cannot be reset. Its
// instance must be dropped, because a WebAssembly memory never shrinks.
var ErrGrown = errors.New("the memory has grown past its image")

// PageSize is the size of a WebAssembly page in bytes.
const PageSize = 64 << 10

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

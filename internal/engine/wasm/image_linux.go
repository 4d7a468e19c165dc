package wasm

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// OpenImage opens an image that [Image.Save] has written, and returns its note.
// Memories map the file itself, so that processes share unwritten pages. Any process
// that can write to the file can change them.
func OpenImage(path string) (*Image, []byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	image := &Image{file: file}
	note, err := image.open()
	if err != nil {
		_ = image.Close() // the first error counts
		return nil, nil, fmt.Errorf("open the image %s: %w", path, err)
	}
	return image, note, nil
}

func (i *Image) open() (note []byte, err error) {
	info, err := i.file.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size() / PageSize * PageSize
	if size == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	note = make([]byte, info.Size()-size)
	if _, err := i.file.ReadAt(note, size); err != nil {
		return nil, err
	}
	i.data, err = unix.Mmap(int(i.file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	i.findHead()
	return note, err
}

// Package delta packs what a memory differs from an image.
package delta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/toolroom/toolroom/internal/engine/cow"
)

// Max is how many bytes a memory may differ from its image and still be
// packed.
const Max = 64 << 20

// ErrInvalid says that bytes are no packed difference, or one of another image.
var ErrInvalid = errors.New("it is no state of this engine")

// TooLargeError says that a memory differs too much from its image.
type TooLargeError struct{ Bytes int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("its variables take %d MiB, the most that is kept is %d MiB", (e.Bytes+1<<20-1)>>20, Max>>20)
}

// block is the unit in which memories are compared.
const block = 4 << 10

// blockSize is what a block takes in a difference: its number, and its bytes.
const blockSize = 4 + block

// maxPacked is the size of the largest difference before it is compressed.
const maxPacked = 4 + Max/block*blockSize

// Packer packs what a memory differs from an image, so that it can be kept
// and loaded into another. What it needs is made at the first use, since most
// processes never see one. Its methods may be called concurrently.
type Packer struct {
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
}

// NewPacker makes a Packer.
func NewPacker() *Packer {
	return &Packer{
		encoder: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		}),
		decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPacked))
		}),
	}
}

// Pack gives what content differs from the image. A [*TooLargeError] says that
// this is too much.
func (p *Packer) Pack(content, image []byte) ([]byte, error) {
	raw := binary.LittleEndian.AppendUint32(nil, uint32(len(content)/cow.PageSize))
	var zero [block]byte
	for at := 0; at < len(content); at += block {
		before := zero[:]
		if at < len(image) {
			before = image[at : at+block]
		}
		if now := content[at : at+block]; string(now) != string(before) {
			raw = append(binary.LittleEndian.AppendUint32(raw, uint32(at/block)), now...)
		}
		if len(raw) > maxPacked {
			return nil, &TooLargeError{len(raw)}
		}
	}
	encoder, err := p.encoder()
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(raw, nil), nil
}

// Target is a WebAssembly memory, as wazero has it.
type Target interface {
	Size() uint32
	Grow(pages uint32) (uint32, bool)
	Write(at uint32, data []byte) bool
}

// ErrNoMemory says that a memory cannot become as large as a difference says.
var ErrNoMemory = errors.New("out of memory")

// Unpack makes a memory that equals the image what was packed. The memory is of
// no use after an error, which is [ErrInvalid] when packed is at fault.
func (p *Packer) Unpack(packed []byte, to Target) error {
	decoder, err := p.decoder()
	if err != nil {
		return err
	}
	raw, err := decoder.DecodeAll(packed, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if len(raw) < 4 || (len(raw)-4)%blockSize != 0 {
		return ErrInvalid
	}
	pages := binary.LittleEndian.Uint32(raw)
	if now := to.Size() / cow.PageSize; pages < now || pages > 1<<16 {
		return ErrInvalid
	} else if _, ok := to.Grow(pages - now); !ok {
		return ErrNoMemory
	}
	for rest := raw[4:]; len(rest) > 0; rest = rest[blockSize:] {
		at := uint64(binary.LittleEndian.Uint32(rest)) * block
		if at >= uint64(to.Size()) || !to.Write(uint32(at), rest[4:blockSize]) {
			return ErrInvalid
		}
	}
	return nil
}

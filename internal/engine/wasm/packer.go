package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/tetratelabs/wazero/api"
)

// MaxDelta is how many bytes may differ for a difference to be packed.
const MaxDelta = 64 << 20

// ErrInvalid means that bytes are not a packed difference, or belong to another image.
var ErrInvalid = errors.New("it is no state of this engine")

// TooLargeError says that a session has too much in its memory to keep its state, and how much.
type TooLargeError string

func (e TooLargeError) Error() string { return string(e) }

// block is the unit in which memories are compared.
const block = 4 << 10

// blockSize is the size of a block in a difference: its number and its bytes.
const blockSize = 4 + block

// maxPacked is the size of the largest difference before it is compressed.
const maxPacked = 4 + MaxDelta/block*blockSize

// packer packs the difference between a memory and an image, so that it can be
// stored and loaded into another memory. It allocates at first use, because most
// processes never need it.
type packer struct {
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
}

func newPacker() *packer {
	return &packer{
		encoder: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		}),
		decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPacked))
		}),
	}
}

// pack returns the difference between content and the image. If it is too large, the
// error is a [TooLargeError].
func (p *packer) pack(content, image []byte) ([]byte, error) {
	raw := binary.LittleEndian.AppendUint32(nil, uint32(len(content)/PageSize))
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
			return nil, TooLargeError(fmt.Sprintf("its variables take %d MiB, the most that is kept is %d MiB", (len(raw)+1<<20-1)>>20, MaxDelta>>20))
		}
	}
	encoder, err := p.encoder()
	if err != nil {
		return nil, err
	}
	return encoder.EncodeAll(raw, nil), nil
}

// errNoMemory means that a memory cannot grow to the size in a difference.
var errNoMemory = errors.New("out of memory")

// unpack turns a memory that equals the image into the packed one. After an error
// the memory must not be used; the error is [ErrInvalid] if packed is at fault.
func (p *packer) unpack(packed []byte, to api.Memory) error {
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
	if now := to.Size() / PageSize; pages < now || pages > 1<<16 {
		return ErrInvalid
	} else if _, ok := to.Grow(pages - now); !ok {
		return errNoMemory
	}
	for rest := raw[4:]; len(rest) > 0; rest = rest[blockSize:] {
		at := uint64(binary.LittleEndian.Uint32(rest)) * block
		if at >= uint64(to.Size()) || !to.Write(uint32(at), rest[4:blockSize]) {
			return ErrInvalid
		}
	}
	return nil
}

package quickjs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/toolroom/toolroom/internal/engine/cow"
)

// MaxState is how many bytes an isolate may differ from the image and still be
// saved.
const MaxState = 64 << 20

// ErrState says that bytes are no state that this machine can load.
var ErrState = errors.New("it is no state of this engine")

// TooLargeError says that an isolate holds more than a state may.
type TooLargeError struct{ Bytes int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("its variables take %d MiB, the most that is kept is %d MiB", (e.Bytes+1<<20-1)>>20, MaxState>>20)
}

// block is the unit in which memories are compared.
const block = 4 << 10

// blockSize is what a block takes in a state: its number, and its bytes.
const blockSize = 4 + block

// Image names the image that isolates begin from. Machines with the same name
// can load one another's states: the engine starts the same way everywhere.
func (m *Machine) Image() string { return m.name() }

func (m *Machine) nameImage() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %+v\n", Version, m.layout)
	h.Write(m.image.Bytes())
	return hex.EncodeToString(h.Sum(nil))
}

// codec packs states. What it needs is made at the first use, since most
// machines never see one.
type codec struct {
	pack   func() (*zstd.Encoder, error)
	unpack func() (*zstd.Decoder, error)
}

func newCodec() codec {
	return codec{
		pack: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		}),
		unpack: sync.OnceValues(func() (*zstd.Decoder, error) {
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(4+MaxState/block*blockSize))
		}),
	}
}

// Save gives all that the run has left behind, for [Isolate.Load] to go on
// from: the memory where it differs from the image. It is called after a run
// that has finished. A state is as trustworthy as the program that made it.
func (i *Isolate) Save(ctx context.Context) ([]byte, error) {
	if i.bad {
		return nil, errors.New("the engine did not end the run cleanly")
	}
	if _, err := i.collect.do(i.context(ctx)); err != nil {
		return nil, fmt.Errorf("collect garbage: %w", err)
	}
	memory := i.module.Memory()
	content, _ := memory.Read(0, memory.Size())
	raw := binary.LittleEndian.AppendUint32(nil, memory.Size()/cow.PageSize)
	image := i.machine.image.Bytes()
	var zero [block]byte
	for at := 0; at < len(content); at += block {
		before := zero[:]
		if at < len(image) {
			before = image[at : at+block]
		}
		if now := content[at : at+block]; string(now) != string(before) {
			raw = append(binary.LittleEndian.AppendUint32(raw, uint32(at/block)), now...)
		}
		if len(raw) > 4+MaxState/block*blockSize {
			return nil, &TooLargeError{len(raw)}
		}
	}
	pack, err := i.machine.codec.pack()
	if err != nil {
		return nil, err
	}
	return pack.EncodeAll(raw, nil), nil
}

// Load makes a fresh isolate what another was when it was saved.
func (i *Isolate) Load(state []byte) error {
	unpack, err := i.machine.codec.unpack()
	if err != nil {
		return err
	}
	raw, err := unpack.DecodeAll(state, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	memory := i.module.Memory()
	if len(raw) < 4 || (len(raw)-4)%blockSize != 0 {
		return ErrState
	}
	pages := binary.LittleEndian.Uint32(raw)
	if pages > (MaxMemory+headroom)/cow.PageSize || pages < memory.Size()/cow.PageSize {
		return ErrState
	}
	if _, ok := memory.Grow(pages - memory.Size()/cow.PageSize); !ok {
		return errNoMemory
	}
	for rest := raw[4:]; len(rest) > 0; rest = rest[blockSize:] {
		at := uint64(binary.LittleEndian.Uint32(rest)) * block
		if at >= uint64(memory.Size()) || !memory.Write(uint32(at), rest[4:blockSize]) {
			i.bad = true
			return ErrState
		}
	}
	return nil
}

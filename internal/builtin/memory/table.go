package memory

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom/internal/embed"
)

// vectorTable keeps the vectors of an owner's paragraphs, in memory and in a file, by the
// digests of their texts. Each vector has a slot: its code, in which each dimension is rounded
// to a byte, and its sketch, which has a bit for the sign of each dimension. A million vectors
// of 384 dimensions take half a gigabyte.
//
// A slot has the same number in the file. Records are written in place, so removed vectors are
// overwritten with zeros. Processes that share the file add to it under a lock, and read the
// vectors that others have added.
type vectorTable struct {
	path  string
	model string
	dims  int // 0 until the first vector
	slots map[embed.Digest]uint32
	codes []int8    // dims for each slot
	norms []float32 // lengths of the codes; 0 is a free slot
	signs []uint64  // words for each slot
	free  []uint32
	epoch int // increases when all slots become invalid
}

const (
	tableMagic  = "toolroom note vectors 1\n"
	tableHeader = len(tableMagic) + sha256.Size + 4
	recordHead  = sha256.Size + 4 // the digest, and a checksum of it and the code
	noSlot      = math.MaxUint32
	maxDims     = 1 << 16
)

// openTable reads a table from its file. A file that is damaged or of another model counts as
// empty, because vectors can be computed again.
func openTable(ctx context.Context, path, model string) (*vectorTable, error) {
	t := &vectorTable{path: path, model: model, slots: map[embed.Digest]uint32{}}
	return t, t.withLock(ctx, os.O_RDWR, t.readNew)
}

// withLock calls do with the file while no other process can change it. Without [os.O_CREATE]
// it does nothing if the file does not exist.
func (t *vectorTable) withLock(ctx context.Context, flags int, do func(*os.File) error) error {
	if flags&os.O_CREATE != 0 {
		if err := os.MkdirAll(filepath.Dir(t.path), 0o700); err != nil {
			return err
		}
	}
	lock := flock.New(t.path + ".lock")
	_, err := lock.TryLockContext(ctx, 5*time.Millisecond)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is not even the folder
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	f, err := os.OpenFile(t.path, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(do(f), f.Close())
}

// readNew reads the records that others have added to the file.
func (t *vectorTable) readNew(f *os.File) error {
	header := make([]byte, tableHeader)
	if _, err := io.ReadFull(f, header); err != nil || !bytes.Equal(header[:tableHeader-4], t.header()) {
		return nil
	}
	dims := int(binary.LittleEndian.Uint32(header[tableHeader-4:]))
	if dims == 0 || dims > maxDims || t.dims != 0 && t.dims != dims {
		return nil
	}
	t.dims = dims
	if _, err := f.Seek(t.offset(len(t.norms)), io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReaderSize(f, 1<<20)
	for record := make([]byte, t.size()); ; {
		if _, err := io.ReadFull(r, record); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return nil // the last one may be half written
			}
			return err
		}
		slot := t.grow()
		digest := embed.Digest(record)
		if _, twice := t.slots[digest]; twice || binary.LittleEndian.Uint32(record[sha256.Size:]) != checksum(record) {
			t.free = append(t.free, slot)
			continue
		}
		code := t.codes[int(slot)*t.dims:]
		for i, b := range record[recordHead:] {
			code[i] = int8(b)
		}
		t.put(slot, digest)
	}
}

// header returns the header of the file, without the dimensions.
func (t *vectorTable) header() []byte {
	model := sha256.Sum256([]byte(t.model))
	return append([]byte(tableMagic), model[:]...)
}

func (t *vectorTable) size() int          { return recordHead + t.dims }
func (t *vectorTable) offset(n int) int64 { return int64(tableHeader) + int64(n)*int64(t.size()) }
func (t *vectorTable) words() int         { return (t.dims + 63) / 64 }
func checksum(record []byte) uint32 {
	return ^crc32.ChecksumIEEE(append(record[:sha256.Size:sha256.Size], record[recordHead:]...))
}
func (t *vectorTable) code(s uint32) []int8 { return t.codes[int(s)*t.dims:][:t.dims] }

// grow adds a slot, which is free.
func (t *vectorTable) grow() uint32 {
	slot := len(t.norms)
	t.norms = append(t.norms, 0)
	t.codes = append(t.codes, make([]int8, t.dims)...)
	t.signs = append(t.signs, make([]uint64, t.words())...)
	return uint32(slot)
}

// put assigns a slot, whose code is set, to the text with a digest.
func (t *vectorTable) put(slot uint32, digest embed.Digest) {
	sum := 0
	signs := t.signs[int(slot)*t.words():][:t.words()]
	clear(signs)
	for i, c := range t.code(slot) {
		sum += int(c) * int(c)
		if c > 0 {
			signs[i/64] |= 1 << (i % 64)
		}
	}
	t.norms[slot] = float32(math.Sqrt(float64(max(sum, 1))))
	t.slots[digest] = slot
}

// add adds the vectors of texts.
func (t *vectorTable) add(ctx context.Context, digests []embed.Digest, vectors [][]float32) error {
	return t.withLock(ctx, os.O_RDWR|os.O_CREATE, func(f *os.File) error {
		if err := t.readNew(f); err != nil {
			return err
		}
		if err := t.reset(f, len(vectors[0])); err != nil {
			return err
		}
		for i, digest := range digests {
			if _, known := t.slots[digest]; known || len(vectors[i]) != t.dims {
				continue
			}
			slot, err := t.freeSlot(f)
			if err != nil {
				return err
			}
			quantize(t.code(slot), vectors[i])
			t.put(slot, digest)
			record := append(digest[:], 0, 0, 0, 0)
			for _, c := range t.code(slot) {
				record = append(record, byte(c))
			}
			binary.LittleEndian.PutUint32(record[sha256.Size:], checksum(record))
			if _, err := f.WriteAt(record, t.offset(int(slot))); err != nil {
				return err
			}
		}
		return nil
	})
}

// reset empties the file and the table if the file is of another model or has other dimensions.
func (t *vectorTable) reset(f *os.File, dims int) error {
	header := binary.LittleEndian.AppendUint32(t.header(), uint32(dims))
	was := make([]byte, tableHeader)
	if _, err := f.ReadAt(was, 0); err == nil && bytes.Equal(was, header) && t.dims == dims {
		return nil
	}
	if dims == 0 || dims > maxDims {
		return fmt.Errorf("vectors of %d dimensions", dims)
	}
	*t = vectorTable{path: t.path, model: t.model, dims: dims, slots: map[embed.Digest]uint32{}, epoch: t.epoch + 1}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(header, 0)
	return err
}

// freeSlot returns a slot that is free in memory and in the file.
func (t *vectorTable) freeSlot(f *os.File) (uint32, error) {
	for len(t.free) > 0 {
		slot := t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		record := make([]byte, t.size())
		if _, err := f.ReadAt(record, t.offset(int(slot))); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if binary.LittleEndian.Uint32(record[sha256.Size:]) != checksum(record) {
			return slot, nil
		}
	}
	return t.grow(), nil
}

// quantize rounds a vector to a code, scaled so that its largest dimension is 127.
func quantize(code []int8, v []float32) {
	var most float32
	for _, x := range v {
		most = max(most, x, -x)
	}
	for i, x := range v {
		code[i] = int8(math.RoundToEven(float64(x / max(most, 1e-9) * 127)))
	}
}

// sweep removes the vectors whose slots are not in used.
func (t *vectorTable) sweep(ctx context.Context, used []bool) error {
	gone := map[embed.Digest]uint32{}
	for digest, slot := range t.slots {
		if int(slot) >= len(used) || !used[slot] {
			gone[digest] = slot
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return t.withLock(ctx, os.O_RDWR, func(f *os.File) error {
		for digest, slot := range gone {
			was := make([]byte, sha256.Size)
			if _, err := f.ReadAt(was, t.offset(int(slot))); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if embed.Digest(was) == digest {
				if _, err := f.WriteAt(make([]byte, t.size()), t.offset(int(slot))); err != nil {
					return err
				}
			}
			delete(t.slots, digest)
			t.norms[slot] = 0
			clear(t.code(slot))
			t.free = append(t.free, slot)
		}
		return nil
	})
}

// eraseVectors overwrites the vectors of texts in a file of any model. If another note has the
// same text, its vector is computed again later.
func eraseVectors(ctx context.Context, path string, texts map[embed.Digest]bool) error {
	t := &vectorTable{path: path}
	return t.withLock(ctx, os.O_RDWR, func(f *os.File) error {
		r := bufio.NewReaderSize(f, 1<<20)
		header := make([]byte, tableHeader)
		if _, err := io.ReadFull(r, header); err != nil || !bytes.HasPrefix(header, []byte(tableMagic)) {
			return nil // it is empty or damaged, and will be made anew
		}
		if t.dims = int(binary.LittleEndian.Uint32(header[tableHeader-4:])); t.dims > maxDims {
			return nil
		}
		record, zeros := make([]byte, t.size()), make([]byte, t.size())
		for slot := 0; ; slot++ {
			if _, err := io.ReadFull(r, record); err != nil {
				if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
					return nil
				}
				return err
			}
			if texts[embed.Digest(record)] {
				if _, err := f.WriteAt(zeros, t.offset(slot)); err != nil {
					return err
				}
			}
		}
	})
}

// cosine returns the cosine similarity of a query, a vector of length 1, and the vector of a
// slot.
func (t *vectorTable) cosine(slot uint32, query []float32) float32 {
	var sum float32
	for i, c := range t.code(slot)[:len(query)] {
		sum += float32(c) * query[i]
	}
	return sum / max(t.norms[slot], 1)
}

// sketch returns the sketch of a vector, for [vectorTable.distance].
func (t *vectorTable) sketch(v []float32) []uint64 {
	signs := make([]uint64, t.words())
	for i, x := range v {
		if x > 0 {
			signs[i/64] |= 1 << (i % 64)
		}
	}
	return signs
}

// distance returns the number of dimensions in which the sign of a slot's vector differs from a
// sketch.
func (t *vectorTable) distance(slot uint32, sketch []uint64) int {
	n := 0
	for i, w := range t.signs[int(slot)*len(sketch):][:len(sketch)] {
		n += bits.OnesCount64(w ^ sketch[i])
	}
	return n
}

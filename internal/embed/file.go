package embed

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// A Digest identifies a text.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a text.
func DigestOf(text string) Digest { return sha256.Sum256([]byte(text)) }

// A File keeps the vectors of one model by the digests of their texts. The texts are not in
// it. A file that is damaged, or of another model, counts as empty: vectors can be
// computed again.
type File struct {
	Path string
}

const (
	fileMagic   = "toolroom vectors 1\n"
	maxFile     = 512 << 20 // bytes
	lockTimeout = 5 * time.Second
)

// Load returns the vectors of the model with this name.
func (f File) Load(model string) (map[Digest][]float32, error) {
	info, err := os.Stat(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[Digest][]float32{}, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: not a file of at most %d bytes", f.Path, maxFile)
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, err
	}
	return decode(data, model), nil
}

// decode reads: magic, length and name of the model, dimensions, count, the records, and
// the SHA-256 of all that.
func decode(data []byte, model string) map[Digest][]float32 {
	vectors := map[Digest][]float32{}
	if len(data) < sha256.Size || !bytes.HasPrefix(data, []byte(fileMagic)) {
		return vectors
	}
	body, sum := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	if actual := sha256.Sum256(body); !bytes.Equal(actual[:], sum) {
		return vectors
	}
	body = body[len(fileMagic):]
	number := func() int {
		if len(body) < 4 {
			return 0
		}
		n := binary.LittleEndian.Uint32(body)
		body = body[4:]
		return int(n)
	}
	if n := number(); n > len(body) || string(body[:n]) != model {
		return vectors
	}
	body = body[len(model):]
	dimensions, count := number(), number()
	size := sha256.Size + 4*dimensions
	if dimensions > maxDimensions || len(body) != count*size {
		return vectors
	}
	for ; len(body) > 0; body = body[size:] {
		v := make([]float32, dimensions)
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[sha256.Size+4*i:]))
		}
		vectors[Digest(body)] = v
	}
	return vectors
}

// Save replaces the content. Of concurrent processes the last one wins; what is lost is
// computed again.
func (f File) Save(ctx context.Context, model string, vectors map[Digest][]float32) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	lock := flock.New(f.Path + ".lock")
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	if _, err := lock.TryLockContext(ctx, 10*time.Millisecond); err != nil {
		return err
	}
	defer lock.Unlock()
	return atomicfile.Write(f.Path, encode(model, vectors), 0o600)
}

func encode(model string, vectors map[Digest][]float32) []byte {
	dimensions := 0
	for _, v := range vectors {
		dimensions = len(v)
		break
	}
	var out bytes.Buffer
	number := func(n int) { out.Write(binary.LittleEndian.AppendUint32(nil, uint32(n))) }
	out.WriteString(fileMagic)
	number(len(model))
	out.WriteString(model)
	number(dimensions)
	at := out.Len()
	number(0)
	count := 0
	for digest, v := range vectors {
		if len(v) != dimensions {
			continue
		}
		count++
		out.Write(digest[:])
		record := make([]byte, 0, 4*dimensions)
		for _, x := range v {
			record = binary.LittleEndian.AppendUint32(record, math.Float32bits(x))
		}
		out.Write(record)
	}
	binary.LittleEndian.PutUint32(out.Bytes()[at:], uint32(count))
	sum := sha256.Sum256(out.Bytes())
	out.Write(sum[:])
	return out.Bytes()
}

package embed

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Bounds of a file of weights. all-MiniLM-L6-v2 has 90 MB and a header of 10 KB.
const (
	maxWeights = 512 << 20
	maxHeader  = 1 << 20
)

// weights are the tensors of a safetensors file.
type weights struct {
	digest  string // SHA-256 of the file, in hex
	tensors map[string]tensorInfo
	data    []float32
}

type tensorInfo struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"` // in bytes, from the end of the header
}

// readWeights reads a safetensors file: eight bytes with the length of the
// header, a JSON header, and the numbers. It computes the digest from the bytes
// that it uses.
func readWeights(ctx context.Context, path string) (*weights, error) {
	f, size, err := openRegular(path, maxWeights)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(io.LimitReader(f, size), hash), 1<<18)
	var length uint64
	if err := binary.Read(in, binary.LittleEndian, &length); err != nil {
		return nil, fmt.Errorf("%s: not a safetensors file: %w", path, err)
	}
	if length == 0 || length > maxHeader || int64(length) > size-8 {
		return nil, fmt.Errorf("%s: not a safetensors file: a header of %d bytes in a file of %d (at most %d)", path, length, size, maxHeader)
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(in, header); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w := &weights{}
	rest := size - 8 - int64(length)
	if w.tensors, err = parseHeader(header, rest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if w.data, err = readFloats(ctx, in, rest); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w.digest = hex.EncodeToString(hash.Sum(nil))
	return w, nil
}

func parseHeader(header []byte, size int64) (map[string]tensorInfo, error) {
	if size%4 != 0 {
		return nil, fmt.Errorf("the tensors have %d bytes, which is not a multiple of 4", size)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(header, &raw); err != nil {
		return nil, fmt.Errorf("the header is not JSON: %w", err)
	}
	delete(raw, "__metadata__")
	tensors := make(map[string]tensorInfo, len(raw))
	for name, text := range raw {
		var t tensorInfo
		if err := json.Unmarshal(text, &t); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		if t.Offsets[0] < 0 || t.Offsets[1] < t.Offsets[0] || t.Offsets[1] > size {
			return nil, fmt.Errorf("tensor %q: bytes %d to %d of %d", name, t.Offsets[0], t.Offsets[1], size)
		}
		tensors[name] = t
	}
	return tensors, nil
}

func readFloats(ctx context.Context, in io.Reader, size int64) ([]float32, error) {
	floats := make([]float32, size/4)
	chunk := make([]byte, 1<<18)
	for at := 0; at < len(floats); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		part := chunk[:min(len(chunk), 4*(len(floats)-at))]
		if _, err := io.ReadFull(in, part); err != nil {
			return nil, fmt.Errorf("the file ends early: %w", err)
		}
		for i := 0; i < len(part); i += 4 {
			floats[at] = math.Float32frombits(binary.LittleEndian.Uint32(part[i:]))
			at++
		}
	}
	return floats, nil
}

// take returns the numbers of a tensor that must have this shape.
func (w *weights) take(name string, shape ...int) ([]float32, error) {
	t, ok := w.tensors[name]
	if !ok {
		if t, ok = w.tensors["bert."+name]; !ok {
			return nil, fmt.Errorf("the weights lack the tensor %q", name)
		}
	}
	if t.DType != "F32" {
		return nil, fmt.Errorf("tensor %q: numbers of type %.20q; only F32 is supported", name, t.DType)
	}
	count := int64(1)
	fits := len(t.Shape) == len(shape)
	for i, n := range shape {
		count *= int64(n)
		fits = fits && t.Shape[i] == n
	}
	if !fits {
		return nil, fmt.Errorf("tensor %q has shape %.40s, not %v as the config says", name, fmt.Sprint(t.Shape), shape)
	}
	if t.Offsets[1]-t.Offsets[0] != 4*count || t.Offsets[0]%4 != 0 {
		return nil, fmt.Errorf("tensor %q: bytes %d to %d do not hold %d numbers", name, t.Offsets[0], t.Offsets[1], count)
	}
	numbers := w.data[t.Offsets[0]/4 : t.Offsets[1]/4 : t.Offsets[1]/4]
	for _, x := range numbers {
		if x-x != 0 { // infinite, or not a number
			return nil, fmt.Errorf("tensor %q holds a number that is not finite", name)
		}
	}
	return numbers, nil
}

// openRegular opens a file and returns its size. It never waits, as for a pipe.
func openRegular(path string, most int64) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s: not a regular file", path)
	}
	if info.Size() > most {
		return nil, 0, fmt.Errorf("%s: %d bytes; at most %d are read", path, info.Size(), most)
	}
	f, err := os.Open(path)
	return f, info.Size(), err
}

func readSmall(path string, most int64) ([]byte, error) {
	f, size, err := openRegular(path, most)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data := make([]byte, size)
	if _, err := io.ReadFull(f, data); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

package module

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
)

// gzipped is the beginning of a packed module (RFC 1952, 2.3.1).
var gzipped = []byte{0x1f, 0x8b}

// unpack returns a module, decompressed if it is packed with gzip.
func unpack(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, gzipped) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack it: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(r, MaxModule+1)); err != nil {
			return nil, fmt.Errorf("unpack it: %w", err)
		}
	}
	if len(data) > MaxModule {
		return nil, fmt.Errorf("it has more than %d MiB, the largest module", MaxModule>>20)
	}
	return data, nil
}

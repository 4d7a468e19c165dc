package quickjs

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
)

//go:embed quickjs.wasm
var blob []byte

// Version names the embedded engine: npm quickjs-wasi, exact version.
const Version = "quickjs-wasi 3.6.2"

// blobSum is the SHA-256 of quickjs.wasm; README.md describes how to build it.
const blobSum = "d4c9375f2b1ca4dc95f72c8aa2982a7a9951ac8011490d79c6582df732b4bbd9"

func checkBlob() error {
	if sum := sha256.Sum256(blob); hex.EncodeToString(sum[:]) != blobSum {
		return errors.New("the embedded QuickJS is not the one that was checked in: its SHA-256 differs; build from a clean checkout")
	}
	return nil
}

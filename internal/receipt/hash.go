package receipt

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Hash returns the SHA-256 of data, in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// hashArguments computes the hash of the arguments, which calls leave to the
// recorder.
func (r *Draft) hashArguments() {
	if r.RawArguments == nil {
		return
	}
	if canonical, err := jsonx.Canonical(r.RawArguments); err == nil {
		r.ArgumentsHash = Hash(canonical)
	}
	r.RawArguments = nil
}

package receipt

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/toolroom/toolroom/internal/jsonx"
)

// Hash is the SHA-256 of data, in hex.
func Hash(data []byte) string {
	sum := sha256.Sum256(data)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}

// hashArguments makes the hash that the call has left to the recorder.
func (r *Receipt) hashArguments() {
	if r.Called == nil {
		return
	}
	if canonical, err := jsonx.Canonical(r.Called); err == nil {
		r.ArgumentsHash = Hash(canonical)
	}
	r.Called = nil
}

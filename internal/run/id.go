package run

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"time"
)

// idText is Crockford's base32 in lower case. It sorts like the bytes and has no letters that
// people confuse.
var idText = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// maxIDText is enough for a prefix and 24 letters of base32.
const maxIDText = 40

// newID returns an id that sorts by time: 48 bits of milliseconds and 72 random bits.
func newID(prefix string, now time.Time) string {
	var b [15]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	rand.Read(b[6:])
	var text [maxIDText]byte
	return string(idText.AppendEncode(append(append(text[:0], prefix...), '_'), b[:]))
}

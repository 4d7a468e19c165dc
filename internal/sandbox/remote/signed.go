package remote

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a signed request. The time is in milliseconds since 1970, the nonce is 16
// bytes in hex, and the signature is "v1=" and 32 bytes in hex.
const (
	HeaderTimestamp = "Toolroom-Timestamp"
	HeaderNonce     = "Toolroom-Nonce"
	HeaderSignature = "Toolroom-Signature"
)

// SignatureWindow is the maximum difference between the clocks of both sides, including the time
// that a request takes.
const SignatureWindow = 5 * time.Minute

const version = "v1="

// Sign signs a request with its body at a time. A request must be signed again before it
// is sent again.
func Sign(r *http.Request, body, secret []byte, now time.Time) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails, see crypto/rand.Read
	timestamp, once := strconv.FormatInt(now.UnixMilli(), 10), hex.EncodeToString(nonce[:])
	r.Header.Set(HeaderTimestamp, timestamp)
	r.Header.Set(HeaderNonce, once)
	r.Header.Set(HeaderSignature, version+hex.EncodeToString(mac(r, body, secret, timestamp, once)))
}

// mac returns the bytes of the signature. No part can contain a line break, so different
// requests have different texts.
func mac(r *http.Request, body, secret []byte, timestamp, nonce string) []byte {
	sum := sha256.Sum256(body)
	text := strings.Join([]string{"toolroom-signature-v1", timestamp, nonce, r.Method, r.URL.RequestURI(), hex.EncodeToString(sum[:])}, "\n")
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return h.Sum(nil)
}

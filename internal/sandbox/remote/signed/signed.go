// Package signed proves who sent an HTTP request: an HMAC-SHA256 over its time,
// a number used once, its method, path and body, under a secret that both sides
// know. It keeps nothing confidential: that is what TLS is for.
package signed

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

// The headers of a signed request. The time is in milliseconds since 1970, the
// nonce 16 bytes in hex, the signature "v1=" and 32 bytes in hex.
const (
	HeaderTimestamp = "Toolroom-Timestamp"
	HeaderNonce     = "Toolroom-Nonce"
	HeaderSignature = "Toolroom-Signature"
)

// Window is how far the clocks of both sides may be apart, and how long a
// request can be on its way.
const Window = 5 * time.Minute

const version = "v1="

// Sign signs a request with a body at a time. A request that is sent again is
// signed again.
func Sign(r *http.Request, body, secret []byte, now time.Time) {
	var nonce [16]byte
	_, _ = rand.Read(nonce[:]) // never fails, see crypto/rand.Read
	timestamp, once := strconv.FormatInt(now.UnixMilli(), 10), hex.EncodeToString(nonce[:])
	r.Header.Set(HeaderTimestamp, timestamp)
	r.Header.Set(HeaderNonce, once)
	r.Header.Set(HeaderSignature, version+hex.EncodeToString(mac(r, body, secret, timestamp, once)))
}

// mac is the signature's bytes. No part can hold a line break, so that no two
// requests have the same text.
func mac(r *http.Request, body, secret []byte, timestamp, nonce string) []byte {
	sum := sha256.Sum256(body)
	text := strings.Join([]string{"toolroom-signature-v1", timestamp, nonce, r.Method, r.URL.RequestURI(), hex.EncodeToString(sum[:])}, "\n")
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(text))
	return h.Sum(nil)
}

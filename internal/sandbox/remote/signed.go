package remote

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"slices"
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

// minSecret is the minimum length of a secret: 128 bits in hex.
const minSecret = 32

// ReadKeys reads the file of secrets: one per line, NAME SECRET or just SECRET with the
// name "default". It ignores empty lines and lines that begin with #. The names identify
// clients: no client sees the sandboxes of another.
func ReadKeys(path string) ([]SigningKey, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var keys []SigningKey
	for i, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) > 2 {
			return nil, fmt.Errorf("%s:%d: want NAME SECRET, found %d words", path, i+1, len(fields))
		}
		key := SigningKey{Name: "default", Secret: []byte(fields[len(fields)-1])}
		if len(fields) == 2 {
			key.Name = fields[0]
		}
		if len(key.Secret) < minSecret {
			return nil, fmt.Errorf("%s:%d: the secret of %s has %d characters, want at least %d: make one with `openssl rand -hex 32`", path, i+1, key.Name, len(key.Secret), minSecret)
		}
		if slices.ContainsFunc(keys, func(k SigningKey) bool { return k.Name == key.Name || string(k.Secret) == string(key.Secret) }) {
			return nil, fmt.Errorf("%s:%d: %s appears twice, or has the same secret as another name", path, i+1, key.Name)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s contains no secret: make one with `openssl rand -hex 32`", path)
	}
	return keys, nil
}

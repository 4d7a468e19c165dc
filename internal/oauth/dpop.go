package oauth

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// nonces stores the nonce that each host requires in the next proof.
type nonces struct {
	mu     sync.Mutex
	byHost map[string]string // by scheme and host
}

func (n *nonces) get(u *url.URL) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.byHost[u.Scheme+"://"+u.Host]
}

// store stores the nonce of a response, and reports whether there was one.
func (n *nonces) store(resp *http.Response) bool {
	nonce := resp.Header.Get("DPoP-Nonce")
	if nonce == "" {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.byHost == nil {
		n.byHost = map[string]string{}
	}
	u := resp.Request.URL
	n.byHost[u.Scheme+"://"+u.Host] = nonce
	return true
}

// proof returns a DPoP proof for one request (RFC 9449, 4.2). Token is the access token
// of the request, or empty at the token endpoint.
func (s *signer) proof(req *http.Request, token, nonce string, now time.Time) (string, error) {
	key, ok := s.key.Public().(*ecdsa.PublicKey)
	if !ok {
		return "", fmt.Errorf("a DPoP proof needs an elliptic key, not %T", s.key)
	}
	point, err := key.Bytes()
	if err != nil {
		return "", err
	}
	half := len(point) / 2 // after one byte that means uncompressed
	target := url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: req.URL.Path, RawPath: req.URL.RawPath}
	claims := map[string]any{"jti": rand.Text(), "htm": req.Method, "htu": target.String(), "iat": now.Unix()}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims["ath"] = encode(sum[:])
	}
	return s.sign(map[string]any{
		"typ": "dpop+jwt",
		"jwk": map[string]string{"kty": "EC", "crv": key.Params().Name, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])},
	}, claims)
}

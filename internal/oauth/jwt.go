package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// signer signs JSON Web Tokens (RFC 7515) with one key.
type signer struct {
	key    crypto.Signer
	method jwt.SigningMethod
}

// readKey reads a private key in PEM: PKCS 8, SEC 1 or PKCS 1.
func readKey(text string) (*signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the private key is not in PEM")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if ec, ecErr := x509.ParseECPrivateKey(block.Bytes); ecErr == nil {
			key, err = ec, nil
		} else if r, rsaErr := x509.ParsePKCS1PrivateKey(block.Bytes); rsaErr == nil {
			key, err = r, nil
		}
	}
	if err != nil {
		return nil, errors.New("the private key cannot be read: want PKCS 8, SEC 1 or PKCS 1 in PEM")
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		switch key.Curve {
		case elliptic.P256():
			return &signer{key, jwt.SigningMethodES256}, nil
		case elliptic.P384():
			return &signer{key, jwt.SigningMethodES384}, nil
		case elliptic.P521():
			return &signer{key, jwt.SigningMethodES512}, nil
		}
	case *rsa.PrivateKey:
		return &signer{key, jwt.SigningMethodRS256}, nil
	case ed25519.PrivateKey:
		return &signer{key, jwt.SigningMethodEdDSA}, nil
	}
	return nil, fmt.Errorf("unsupported kind of private key: %T", key)
}

// newKey generates a key for DPoP proofs and returns it in PEM, too.
func newKey() (*signer, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, "", err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return &signer{key, jwt.SigningMethodES256}, string(text), nil
}

func (s *signer) sign(header, claims map[string]any) (string, error) {
	header["alg"] = s.method.Alg()
	return (&jwt.Token{Method: s.method, Header: header, Claims: jwt.MapClaims(claims)}).SignedString(s.key)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// assertionLife is the lifetime of an assertion.
const assertionLife = 2 * time.Minute

// assertion authenticates a client to an authorization server (RFC 7523, 3).
func (s *signer) assertion(clientID, audience, keyID string, now time.Time) (string, error) {
	header := map[string]any{"typ": "JWT"}
	if keyID != "" {
		header["kid"] = keyID
	}
	return s.sign(header, map[string]any{
		"iss": clientID, "sub": clientID, "aud": audience, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
}

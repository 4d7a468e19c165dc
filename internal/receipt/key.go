package receipt

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// SigningKey is an Ed25519 key (RFC 8032) that signs exports and checkpoints.
type SigningKey struct{ private ed25519.PrivateKey }

// OpenSigningKey reads the key at path, PKCS #8 in PEM. If there is none, it creates it.
func OpenSigningKey(path string) (SigningKey, error) {
	text, err := atomicfile.Key(path, newKeyPEM)
	if err != nil {
		return SigningKey{}, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return SigningKey{}, fmt.Errorf("%s is no key in PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return SigningKey{}, fmt.Errorf("read the key %s: %w", path, err)
	}
	private, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return SigningKey{}, fmt.Errorf("%s is no Ed25519 key; make one with: openssl genpkey -algorithm ed25519", path)
	}
	return SigningKey{private}, nil
}

func newKeyPEM() []byte {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err) // an Ed25519 key always has a form
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// Public returns the public key, which verifies the signatures.
func (k SigningKey) Public() ed25519.PublicKey { return k.private.Public().(ed25519.PublicKey) }

// PublicPEM encodes a public key in PEM, which openssl and others read.
func PublicPEM(key ed25519.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // an Ed25519 key always has a form
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// ReadPublicKey reads a public key in PEM.
func ReadPublicKey(path string) (ed25519.PublicKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s is no key in PEM", path)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the key %s: %w", path, err)
	}
	public, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("%s is no public Ed25519 key", path)
	}
	return public, nil
}

// Fingerprint returns the first ten bytes of the key's SHA-256, in hex: short enough to
// compare by eye.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:10])
}

// The first lines of signed texts. They differ so that a signature of one kind is not valid
// for the other.
const (
	checkpointContext = "toolroom checkpoint 1\n"
	manifestContext   = "toolroom export 1\n"
)

func (k SigningKey) sign(context string, text []byte) []byte {
	return ed25519.Sign(k.private, append([]byte(context), text...))
}

func hasSignature(key ed25519.PublicKey, context string, text, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, append([]byte(context), text...), signature)
}

// SignCheckpoint sets the signature of a checkpoint.
func (k SigningKey) SignCheckpoint(c *Checkpoint) error {
	text, err := checkpointText(*c)
	if err == nil {
		c.Signature = k.sign(checkpointContext, text)
	}
	return err
}

// VerifyCheckpoint returns an error if a checkpoint was not signed by the owner of key.
func VerifyCheckpoint(key ed25519.PublicKey, c Checkpoint) error {
	text, err := checkpointText(c)
	if err != nil {
		return err
	}
	if !hasSignature(key, checkpointContext, text, c.Signature) {
		return Broken("", c.Seq+1, "receipts before it are gone, and their removal was not signed with this key")
	}
	return nil
}

func checkpointText(c Checkpoint) ([]byte, error) {
	c.Signature, c.Time = nil, c.Time.UTC()
	return json.Marshal(c)
}

// errNoManifest is the error of an export that was truncated.
var errNoManifest = errors.New("the last line is no manifest: the file was cut off, or something was added to it")

func broken(format string, args ...any) error {
	e := toolroom.Errorf(toolroom.CodeInternal, format, args...)
	e.Phase = toolroom.PhaseReceipt
	return e.WithHint("ask whoever made the export for the original, and compare")
}

package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// KeyBytes is the length of a key: AES-256.
const KeyBytes = 32

const (
	vaultVersion = 1
	// maxVault is the maximum size of the file, in bytes.
	maxVault = 64 << 20
)

// vault is the content of secrets.json.
type vault struct {
	Version int `json:"version"`
	// Secrets holds the nonce and ciphertext of each value by its name: scope/name, or
	// scope/name@owner for a value of one identity.
	Secrets map[string][]byte `json:"secrets"`
}

func (s *Store) read() (*vault, error) {
	v := &vault{Version: vaultVersion, Secrets: map[string][]byte{}}
	f, err := os.Open(s.path("secrets.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxVault+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxVault {
		return nil, s.damaged(errors.New("it is too large"))
	}
	if err := json.Unmarshal(data, v); err != nil {
		return nil, s.damaged(err)
	}
	if v.Version != vaultVersion || v.Secrets == nil {
		return nil, s.damaged(errors.New("it is of another version of Toolroom"))
	}
	return v, nil
}

func (s *Store) write(v *vault) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path("secrets.json"), append(data, '\n'), 0o600)
}

func (s *Store) damaged(cause error) error {
	return toolroom.Errorf(toolroom.CodeInternal, "%s cannot be used: %w", s.path("secrets.json"), cause).
		WithHint("restore the file from a backup, or remove it and set the secrets again")
}

// valueCipher encrypts and decrypts values.
type valueCipher struct{ aead cipher.AEAD }

func newValueCipher(key []byte) (valueCipher, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return valueCipher{}, err
	}
	// The nonce is random and precedes the ciphertext.
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return valueCipher{aead}, err
}

// seal encrypts the value and binds it to its name, so that values cannot be swapped in the file.
func (b valueCipher) seal(v *vault, ref Ref, value string) {
	v.Secrets[ref.key()] = b.aead.Seal(nil, nil, []byte(value), []byte(ref.key()))
}

func (b valueCipher) open(v *vault, ref Ref) (string, error) {
	value, err := b.aead.Open(nil, nil, v.Secrets[ref.key()], []byte(ref.key()))
	if err != nil {
		return "", toolroom.Errorf(toolroom.CodeInternal, "%s was encrypted with another key, or its text was changed", ref).
			WithCLIHint("restore secrets.key beside it, or set it again: toolroom secret set %s", ref.path())
	}
	return string(value), nil
}

// existingCipher returns the cipher of the existing key.
func (s *Store) existingCipher() (valueCipher, error) {
	if s.o.Key != nil {
		return newValueCipher(s.o.Key)
	}
	path := s.path("secrets.key")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return valueCipher{}, toolroom.Errorf(toolroom.CodeInternal, "the key of the secrets is gone: there is no %s", path).
			WithHint("restore the file, or remove secrets.json and set the secrets again")
	}
	if err != nil {
		return valueCipher{}, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return valueCipher{}, toolroom.Errorf(toolroom.CodeInternal, "others can read the key of the secrets: %s has mode %04o", path, info.Mode().Perm()).
			WithHint("chmod 600 %s", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return valueCipher{}, err
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != KeyBytes {
		return valueCipher{}, toolroom.Errorf(toolroom.CodeInternal, "%s is not a key: want %d bytes in base64", path, KeyBytes).
			WithHint("restore the file from a backup")
	}
	return newValueCipher(key)
}

// cipherFor returns the cipher for v. If v is empty and there is no key, it makes one. The caller
// must hold the lock.
func (s *Store) cipherFor(v *vault) (valueCipher, error) {
	if s.o.Key == nil && len(v.Secrets) == 0 {
		if _, err := os.Stat(s.path("secrets.key")); errors.Is(err, fs.ErrNotExist) {
			key := make([]byte, KeyBytes)
			rand.Read(key) // never fails
			text := base64.StdEncoding.EncodeToString(key) + "\n"
			if err := atomicfile.Write(s.path("secrets.key"), []byte(text), 0o600); err != nil {
				return valueCipher{}, err
			}
		}
	}
	return s.existingCipher()
}

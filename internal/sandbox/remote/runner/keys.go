package runner

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/sandbox/remote/signed"
)

// minSecret is what a secret has at least: 128 bits, written as hex.
const minSecret = 32

// ReadKeys reads the file of secrets: one a line, NAME SECRET or just SECRET,
// whose name is then "default". Empty lines and those that begin with # say
// nothing. The names tell clients apart: none sees the sandboxes of another.
func ReadKeys(path string) ([]signed.Key, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var keys []signed.Key
	for i, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) > 2 {
			return nil, fmt.Errorf("%s:%d: want NAME SECRET, found %d words", path, i+1, len(fields))
		}
		key := signed.Key{Name: "default", Secret: []byte(fields[len(fields)-1])}
		if len(fields) == 2 {
			key.Name = fields[0]
		}
		if len(key.Secret) < minSecret {
			return nil, fmt.Errorf("%s:%d: the secret of %s has %d characters; %d are the least: make one with `openssl rand -hex 32`", path, i+1, key.Name, len(key.Secret), minSecret)
		}
		if slices.ContainsFunc(keys, func(k signed.Key) bool { return k.Name == key.Name || string(k.Secret) == string(key.Secret) }) {
			return nil, fmt.Errorf("%s:%d: %s is there twice, or has the secret of another", path, i+1, key.Name)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no secret in it: make one with `openssl rand -hex 32`", path)
	}
	return keys, nil
}

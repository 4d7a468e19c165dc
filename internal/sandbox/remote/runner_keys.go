package remote

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

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

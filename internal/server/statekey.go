package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
)

// stateKey is the key that seals what MCP clients carry between the rounds of a
// call. It is kept in the home, so that a round may be answered after a restart
// and by any process on the same home.
func stateKey(home string) ([]byte, error) {
	path := filepath.Join(home, "state.key")
	for range 2 {
		key, err := os.ReadFile(path)
		if err == nil && len(key) == mcpserver.StateKeySize {
			return key, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read the key of request state: %w", err)
		}
		if err := writeKey(path, err == nil); err != nil {
			return nil, fmt.Errorf("keep the key of request state: %w", err)
		}
	}
	return nil, fmt.Errorf("%s does not hold a key (remove it)", path)
}

// writeKey makes a key, unless another process has just made one. A broken one
// is replaced.
func writeKey(path string, broken bool) error {
	key := make([]byte, mcpserver.StateKeySize)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".state-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(key)
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if broken {
		return os.Rename(temp.Name(), path)
	}
	// A link fails where the file is there: the first key made is everybody's.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

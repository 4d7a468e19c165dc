package app

import (
	"crypto/hkdf"
	"crypto/sha256"
	"path/filepath"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// sealKey returns the key for sealing one kind of data that this home gives away and gets
// back. All processes of a home share it, also after a restart.
func (a *App) sealKey(use string) ([]byte, error) {
	path := filepath.Join(a.home, "seal.key")
	key, err := atomicfile.Key(path, approval.NewKey)
	if err != nil {
		return nil, err
	}
	if len(key) != approval.KeyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInternal, "%s does not contain a key", path).
			WithHint("remove the file: a new key is created, and earlier links and multi-round requests become invalid")
	}
	return hkdf.Key(sha256.New, key, nil, "toolroom "+use, approval.KeyBytes)
}

// StateKey returns the key that seals the state that MCP clients carry between the rounds
// of a call.
func (a *App) StateKey() ([]byte, error) { return a.sealKey("mcp state") }

package room

import (
	"crypto/hkdf"
	"crypto/sha256"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/keyfile"
)

// sealKey is the key for one use of what leaves this home and comes back: all
// processes of a home have the same, also after a restart.
func (r *Room) sealKey(use string) ([]byte, error) {
	key, err := keyfile.Open(filepath.Join(r.home, "seal.key"), approval.NewKey)
	if err != nil {
		return nil, err
	}
	return hkdf.Key(sha256.New, key, nil, "toolroom "+use, approval.KeyBytes)
}

// StateKey seals what MCP clients carry between the rounds of a call.
func (r *Room) StateKey() ([]byte, error) { return r.sealKey("mcp state") }

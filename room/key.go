package room

import (
	"crypto/hkdf"
	"crypto/sha256"
	"path/filepath"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/keyfile"
)

// sealKey is the key for one use of what leaves this home and comes back: all
// processes of a home have the same, also after a restart.
func (r *Room) sealKey(use string) ([]byte, error) {
	path := filepath.Join(r.home, "seal.key")
	key, err := keyfile.Open(path, approval.NewKey)
	if err != nil {
		return nil, err
	}
	if len(key) != approval.KeyBytes {
		return nil, toolroom.Errorf(toolroom.CodeInternal, "%s does not hold a key", path).
			WithHint("remove it: a new one is made, and links and rounds of calls from before end")
	}
	return hkdf.Key(sha256.New, key, nil, "toolroom "+use, approval.KeyBytes)
}

// StateKey seals what MCP clients carry between the rounds of a call.
func (r *Room) StateKey() ([]byte, error) { return r.sealKey("mcp state") }

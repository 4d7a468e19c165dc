package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

// metered is a module that can be stopped: the one in the cache, which is worth
// some 13 ms of a start, or a new one that is kept there. What cannot be kept, as
// in a folder that is only read, is made again the next time.
func metered(module []byte, cacheDir string) ([]byte, error) {
	if cacheDir == "" {
		return wasmfuel.Rewrite(module)
	}
	sum := sha256.Sum256(module)
	path := filepath.Join(cacheDir, "metered-"+wasmfuel.Version+"-"+hex.EncodeToString(sum[:12])+".wasm")
	if kept, err := os.ReadFile(path); err == nil {
		return kept, nil
	}
	rewritten, err := wasmfuel.Rewrite(module)
	if err == nil {
		_ = atomicfile.Write(path, rewritten, 0o600) // see above
	}
	return rewritten, err
}

package wasm

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

// metered returns a module that can be stopped: the one in the cache, which saves
// some 13 ms of a start, or a new one, which it caches. If it cannot be cached, as in
// a read-only folder, it is made again the next time.
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
		_ = atomicfile.Write(path, rewritten, 0o600) // failure is acceptable, see above
	}
	return rewritten, err
}

package cpython

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// imagePath is where a cache has the image with a guest, by all that it is made
// of; empty without a cache.
func imagePath(cacheDir string, guest map[string]string) string {
	if cacheDir == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n", blobSum, bootScript)
	for _, name := range slices.Sorted(maps.Keys(guest)) {
		fmt.Fprintf(h, "%q %q\n", name, guest[name])
	}
	return filepath.Join(cacheDir, "cpython-"+hex.EncodeToString(h.Sum(nil)[:12])+".image")
}

// keepImage is how long the image of another build stays after it was made: two
// builds may share a home. One that is removed too soon is made again.
const keepImage = 7 * 24 * time.Hour

// forgetOthers removes the images of other builds from the folder of a new one.
// What cannot be removed only takes room.
func forgetOthers(image string) {
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(image), "cpython-*.image")) // the pattern is right
	for _, other := range others {
		if about, err := os.Stat(other); err == nil && other != image && time.Since(about.ModTime()) > keepImage {
			_ = os.Remove(other)
		}
	}
}

package py

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

// imagePath returns the path in a cache of the image with a guest, which depends on
// everything that the image is made of. Without a cache it returns "".
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

// keepImage is how long the image of another build is kept: two builds may share a
// home. An image that is removed too soon is made again.
const keepImage = 7 * 24 * time.Hour

// removeOtherImages removes old images of other builds from the folder of a new image. It ignores
// errors: images that stay only use disk space.
func removeOtherImages(image string) {
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(image), "cpython-*.image")) // the pattern is right
	for _, other := range others {
		if about, err := os.Stat(other); err == nil && other != image && time.Since(about.ModTime()) > keepImage {
			_ = os.Remove(other)
		}
	}
}

package cpython

import (
	"os"
	"path/filepath"
	"time"
)

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

package function

import (
	"io/fs"
	"os"
	"time"
)

// settling is the age from which an unneeded layer is removed, counted from its last use: until
// then a push may be about to store the version that needs it, or a build may see it.
const settling = time.Hour

func young(info fs.FileInfo) bool { return time.Since(info.ModTime()) < settling }

// touch reports whether a layer or file is there, and begins its age again.
func touch(path string) bool {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return true
	}
	_, err := os.Stat(path) // of a store that cannot be written
	return err == nil
}

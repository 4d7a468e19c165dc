package function

import (
	"io/fs"
	"time"
)

// settling is the age from which an unneeded layer is removed: until then a push may be
// about to store the version that needs it.
const settling = time.Hour

func young(info fs.FileInfo) bool { return time.Since(info.ModTime()) < settling }

package mark

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// MkdirTemp makes a folder for what lasts no longer than this process, in dir
// (the system's folder for temporary files if empty), and marks it by its name.
// Only this user can enter it.
func MkdirTemp(dir, kind string) (string, error) {
	return os.MkdirTemp(dir, "toolroom-"+kind+"-"+proc.Owner()+"_")
}

// folderName is what MkdirTemp makes of a kind, an owner and something random.
var folderName = regexp.MustCompile(`^toolroom-[a-z]+-([0-9]+-[0-9]+)_[0-9]+$`)

// CleanFolders lists the folders in dir that dead processes made with
// [MkdirTemp], and removes them unless dry.
func CleanFolders(dir string, dry bool) []sandbox.Leftover {
	if dir == "" {
		dir = os.TempDir()
	}
	entries, _ := os.ReadDir(dir) // what cannot be read has nothing of ours
	var left []sandbox.Leftover
	for _, e := range entries {
		found := folderName.FindStringSubmatch(e.Name())
		if found == nil || !e.IsDir() || proc.Alive(found[1]) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		left = append(left, sandbox.Leftover{Kind: "folder", Name: path}.Remove(dry, func() error { return os.RemoveAll(path) }))
	}
	return left
}

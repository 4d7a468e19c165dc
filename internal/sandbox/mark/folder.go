package mark

import (
	"io/fs"
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

// Readable lets every user read a folder and what is in it, whatever the umask
// was when it was made: a sandbox's user is another one. Its owner alone writes.
func Readable(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		case d.Type().IsRegular(): // a link may lead anywhere
			return os.Chmod(path, 0o644)
		}
		return nil
	})
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

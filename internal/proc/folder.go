package proc

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/toolroom/toolroom/sandbox"
)

// MkdirTemp makes a folder for files that do not outlive this process, in dir (the
// system's folder for temporary files if empty). Its name identifies this process. Only
// this user can enter it.
func MkdirTemp(dir, kind string) (string, error) {
	return os.MkdirTemp(dir, "toolroom-"+kind+"-"+Owner()+"_")
}

// Readable lets every user read a folder and its contents, regardless of the umask when
// they were made, because sandboxes run as another user. Only the owner may write.
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

// folderName matches the names made by MkdirTemp: kind, owner, random number.
var folderName = regexp.MustCompile(`^toolroom-[a-z]+-(` + ownerForm + `)_[0-9]+$`)

// CleanFolders lists the folders in dir that dead processes of this user have made with
// [MkdirTemp], and removes them unless dry is set.
func CleanFolders(dir string, dry bool) []sandbox.Leftover {
	if dir == "" {
		dir = os.TempDir()
	}
	entries, _ := os.ReadDir(dir) // a folder that cannot be read has none of our folders
	var left []sandbox.Leftover
	for _, e := range entries {
		found := folderName.FindStringSubmatch(e.Name())
		if found == nil || Alive(found[1]) {
			continue
		}
		if info, err := e.Info(); err != nil || !IsOwnFolder(info) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		left = append(left, sandbox.Leftover{Kind: "folder", Name: path}.Remove(dry, func() error { return os.RemoveAll(path) }))
	}
	return left
}

package program

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/toolroom/toolroom/internal/proc"
)

// maxSocket is the maximum length of a socket's path: 104 bytes on macOS, 108 on Linux, with
// the final NUL.
const maxSocket = 103

// newSocket returns the path of a new socket in folder, which only this user may use. If the
// path would be too long, it is in a new folder of the system's temporary folder.
func newSocket(folder string) (string, error) {
	name := fmt.Sprintf("%s.%s.sock", proc.Owner(), strings.ToLower(rand.Text()[:8]))
	if len(filepath.Join(folder, name)) > maxSocket {
		short, err := proc.MkdirTemp("", shortKind)
		if err != nil {
			return "", err
		}
		return filepath.Join(short, name), nil
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	if err := makePrivate(folder); err != nil {
		return "", err
	}
	removeDead(folder)
	return filepath.Join(folder, name), nil
}

// shortKind is the kind of folders for sockets whose path would be too long.
const shortKind = "run"

// removeSocket removes a socket, and its folder if that was made for it alone.
func removeSocket(path string) {
	os.Remove(path)
	if folder := filepath.Dir(path); strings.HasPrefix(filepath.Base(folder), "toolroom-"+shortKind+"-") {
		os.Remove(folder)
	}
}

// makePrivate makes sure that only this user may use a folder.
func makePrivate(folder string) error {
	if runtime.GOOS == "windows" {
		return nil // the user's profile is private
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", folder)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return os.Chmod(folder, 0o700) // fails for the folder of another user
	}
	return checkOwner(info)
}

// removeDead removes the sockets of processes that have ended.
func removeDead(folder string) {
	old, _ := filepath.Glob(filepath.Join(folder, "*.sock"))
	for _, path := range old {
		owner, _, _ := strings.Cut(filepath.Base(path), ".")
		if !proc.Alive(owner) {
			os.Remove(path)
		}
	}
}

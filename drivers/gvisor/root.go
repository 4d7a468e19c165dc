package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/toolroom/toolroom/internal/proc"
)

// hostPaths are the folders of this machine with programs and libraries, and the files
// that programs and libraries read.
var hostPaths = []string{
	"/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ssl/certs",
}

// rootFiles are the files of a root that must differ from those of this machine.
var rootFiles = map[string]string{
	"etc/passwd":         "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/work:/bin/sh\n",
	"etc/group":          "root:x:0:\nnogroup:x:65534:\n",
	"etc/hosts":          "127.0.0.1 localhost\n",
	"etc/nsswitch.conf":  "passwd: files\ngroup: files\nhosts: files dns\n",
	"etc/resolv.conf":    "",
	"run/toolroom-guest": "",
}

// systemRoot makes a root in folder, with the same links as this machine, and returns
// the read-only mounts for it.
func systemRoot(folder string) ([]specs.Mount, error) {
	for _, name := range []string{"dev", "etc/ssl", "proc", "run", "sys", "tmp", "work"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range rootFiles {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	var mounts []specs.Mount
	for _, path := range hostPaths {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		inside := filepath.Join(folder, path)
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err == nil {
				err = os.Symlink(target, inside)
			}
			if err != nil {
				return nil, err
			}
			continue
		case info.IsDir():
			err = os.Mkdir(inside, 0o755)
		default:
			err = os.WriteFile(inside, nil, 0o644)
		}
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, specs.Mount{Destination: path, Type: "bind", Source: path, Options: []string{"rbind", "ro", "nosuid", "nodev"}})
	}
	return mounts, proc.Readable(folder)
}

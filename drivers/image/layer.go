package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// ownFiles are files that replace those of the packages, or are added to them.
var ownFiles = []struct {
	name, text string
}{
	{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/work:/bin/sh\n"},
	{"etc/group", "root:x:0:\nnogroup:x:65534:\n"},
	{"etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"},
	// Mount points, which cannot be made later in a read-only root.
	{"run/toolroom-guest", ""},
	{"etc/hosts", ""},
	{"etc/hostname", ""},
	{"etc/resolv.conf", ""},
}

// entries calls each for every file of the image, in a fixed order: first the packages'
// files, without devices, which every runtime makes itself, and without set-user-ID and
// set-group-ID bits; then our own files.
func entries(tree string, o Options, each func(*tar.Header, io.Reader) error) error {
	in, err := os.Open(tree)
	if err != nil {
		return err
	}
	defer in.Close()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		h.Name = strings.TrimPrefix(h.Name, "./")
		if h.Name == "" || !isKept(h) {
			continue
		}
		h.Linkname = hardLink(h)
		if err := each(withoutMetadata(h, o.Time), r); err != nil {
			return err
		}
	}
	return ownEntries(o, each)
}

func isKept(h *tar.Header) bool {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
	default:
		return false
	}
	for _, f := range ownFiles {
		if h.Name == f.name {
			return false
		}
	}
	return !strings.HasPrefix(h.Name, "dev/")
}

func hardLink(h *tar.Header) string {
	if h.Typeflag == tar.TypeLink {
		return strings.TrimPrefix(h.Linkname, "./")
	}
	return h.Linkname
}

// withoutMetadata returns h without metadata that differs between builds.
func withoutMetadata(h *tar.Header, at time.Time) *tar.Header {
	const sticky = 0o1000
	return &tar.Header{
		Typeflag: h.Typeflag, Name: h.Name, Linkname: h.Linkname, Size: h.Size,
		Mode: h.Mode & (0o777 | sticky), Uid: h.Uid, Gid: h.Gid, ModTime: at, Format: tar.FormatPAX,
	}
}

func ownEntries(o Options, each func(*tar.Header, io.Reader) error) error {
	// A tmpfs that is mounted here takes the mode of this folder if the engine sets no
	// owner, as Podman does not.
	folder := &tar.Header{Typeflag: tar.TypeDir, Name: "work/", Mode: 0o777, Uid: 65534, Gid: 65534}
	if err := each(withoutMetadata(folder, o.Time), nil); err != nil {
		return err
	}
	for _, f := range ownFiles {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: int64(len(f.text))}
		if err := each(withoutMetadata(h, o.Time), strings.NewReader(f.text)); err != nil {
			return err
		}
	}
	guest, err := os.Open(o.Guest)
	if err != nil {
		return err
	}
	defer guest.Close()
	info, err := guest.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: GuestPath[1:], Mode: 0o755, Size: info.Size()}
	return each(withoutMetadata(h, o.Time), guest)
}

func writeLayer(w io.Writer, tree string, o Options) error {
	out := tar.NewWriter(w)
	err := entries(tree, o.withDefaults(), func(h *tar.Header, content io.Reader) error {
		if err := out.WriteHeader(h); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		_, err := io.Copy(out, content)
		return err
	})
	if err != nil {
		return err
	}
	return out.Close()
}

// unpackLayer writes the files below folder, and nowhere else, even if there are links
// among them.
func unpackLayer(tree, folder string, o Options) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(folder); err != nil || len(there) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty", folder))
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{"dev", "proc", "sys", "tmp", "run"} {
		if err := root.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	isRoot := os.Geteuid() == 0
	return entries(tree, o.withDefaults(), func(h *tar.Header, content io.Reader) error {
		name := filepath.FromSlash(path.Clean(h.Name))
		mode := os.FileMode(h.Mode & 0o777)
		if err := unpackEntry(root, name, h, mode, content); err != nil {
			return err
		}
		if isRoot {
			if err := root.Lchown(name, h.Uid, h.Gid); err != nil {
				return err
			}
		}
		if h.Typeflag == tar.TypeSymlink || h.Typeflag == tar.TypeLink {
			return nil
		}
		if h.Mode&0o1000 != 0 {
			mode |= os.ModeSticky
		}
		return root.Chmod(name, mode) // independent of the umask
	})
}

func unpackEntry(root *os.Root, name string, h *tar.Header, mode os.FileMode, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, 0o755)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return root.Link(filepath.FromSlash(path.Clean(h.Linkname)), name)
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

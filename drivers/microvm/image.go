package microvm

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolroom/toolroom/internal/guest/vm"
)

// Files of an image, in its folder.
const (
	kernelFile   = "vmlinux"
	modulesFile  = "modules.cpio"
	rootFile     = "root.ext4"
	manifestFile = "image.json"
)

// Manifest describes an image. It is written last, so a folder that contains it is
// complete.
type Manifest struct {
	// Kernel is the release of the VMs' kernel.
	Kernel string `json:"kernel"`
	// Languages are the languages with an interpreter in the root file system.
	Languages []string `json:"languages"`
	// SHA256 is the checksum of each file, in hex.
	SHA256 map[string]string `json:"sha256"`
}

// readManifest returns os.ErrNotExist if there is no image.
func readManifest(folder string) (m Manifest, err error) {
	data, err := os.ReadFile(filepath.Join(folder, manifestFile))
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(folder, manifestFile), err)
	}
	return m, nil
}

// Verify compares the files of an image with their checksums.
func Verify(folder string) error {
	m, err := readManifest(folder)
	if err != nil {
		return fmt.Errorf("there is no image to verify; %s: %w", setupFix, err)
	}
	for name, want := range m.SHA256 {
		got, err := checksum(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s has been changed since it was made", filepath.Join(folder, name))
		}
	}
	return nil
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// digest returns a name that depends on all parts.
func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// initrd returns the path of the initial file system of a guest, making it if necessary.
// It contains the image's modules, and the guest as the first process.
func initrd(folder, guest string) (path string, err error) {
	sum, err := checksum(guest)
	if err != nil {
		return "", err
	}
	modules, err := os.ReadFile(filepath.Join(folder, modulesFile))
	if err != nil {
		return "", err
	}
	path = filepath.Join(folder, "initrd-"+digest(sum, string(modules)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := checkStatic(guest); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(folder, "initrd-*"))
	binary, err := os.ReadFile(guest)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(folder, ".initrd-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.Write(modules); err != nil {
		return "", err
	}
	a := archive{w: f}
	a.file("init", binary)
	if err := a.close(); err != nil {
		return "", err
	}
	if err := f.Chmod(0o644); err != nil {
		return "", err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return "", err
	}
	// Remove the files of older guests. A VM that is booting has its own open.
	for _, name := range old {
		os.Remove(name)
	}
	return path, nil
}

// checkStatic returns an error if the guest needs shared libraries, which a VM does not have
// before its disk is mounted.
func checkStatic(guest string) error {
	f, err := elf.Open(guest)
	if err != nil {
		return fmt.Errorf("the guest %s is not a program for Linux: %w", guest, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("the guest %s needs libraries that a VM does not have: build it with CGO_ENABLED=0, as make build does", guest)
		}
	}
	return nil
}

// writeModules writes the part of the initial file system without the guest: modules, in
// the order in which they are loaded.
func writeModules(w io.Writer, names []string, read func(name string) ([]byte, error)) error {
	a := archive{w: w}
	for _, name := range []string{"dev", "proc", "sys", "root", "modules"} {
		a.folder(name)
	}
	var list strings.Builder
	for _, name := range names {
		data, err := read(name)
		if err != nil {
			return err
		}
		path := "modules/" + filepath.Base(name)
		a.file(path, data)
		list.WriteString("/" + path + "\n")
	}
	a.file(strings.TrimPrefix(vm.ModulesFile, "/"), []byte(list.String()))
	return a.close()
}

// Folder returns the folder of the VM image in a room's home.
func Folder(home string) string { return filepath.Join(home, "microvm") }

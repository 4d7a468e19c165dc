package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/guest/vm"
)

// SetupOptions configures the making of an image.
type SetupOptions struct {
	// Folder is the folder of the image.
	Folder string
	// Kernel is a Debian package of a kernel, or an uncompressed vmlinux with all drivers
	// built in; if empty, Debian's cloud kernel, downloaded with apt.
	Kernel string
	// Root is a folder with a root file system; if empty, mmdebstrap makes a small one
	// with Packages.
	Root string
	// Suite is the Debian release; bookworm if empty.
	Suite string
	// Packages are added to the root file system.
	Packages []string
	// Log is called with each step, as a line of text; nil discards it.
	Log func(line string)
}

// packages are the packages of a root file system with Python and a shell.
var packages = []string{"base-files", "libc-bin", "dash", "coreutils", "grep", "sed", "findutils", "python3-minimal", "libpython3-stdlib"}

// Setup makes the VM image: kernel, modules and root file system, with their checksums.
// It needs no root rights, and replaces an existing image.
func Setup(ctx context.Context, o SetupOptions) error {
	if o.Suite == "" {
		o.Suite = "bookworm"
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	if err := o.requirements(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Folder, 0o755); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(o.Folder, ".setup-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	s := setup{SetupOptions: o, temp: temp}
	if err := s.kernel(ctx); err != nil {
		return fmt.Errorf("the kernel: %w", err)
	}
	if err := s.root(ctx); err != nil {
		return fmt.Errorf("the root file system: %w", err)
	}
	return s.publish()
}

// tool is a program that Setup needs.
type tool struct{ name, pkg, use string }

// requirements returns an error that names all missing tools.
func (o SetupOptions) requirements() error {
	tools := []tool{{"mke2fs", "e2fsprogs", "makes the root file system"}}
	if o.Kernel == "" {
		tools = append(tools, tool{"apt-get", "apt", "downloads Debian's kernel; without it, choose one with --kernel"})
	}
	if o.Kernel == "" || strings.HasSuffix(o.Kernel, ".deb") {
		tools = append(tools, tool{"dpkg-deb", "dpkg", "opens the kernel's package"})
	}
	if o.Root == "" {
		tools = append(tools, tool{"mmdebstrap", "mmdebstrap", "makes the root file system; without it, choose a folder with --root"}, tool{"tar", "tar", "unpacks it"})
	}
	var lines, names []string
	for _, t := range tools {
		if _, err := exec.LookPath(t.name); err != nil {
			lines = append(lines, fmt.Sprintf("%s is missing, which %s", t.name, t.use))
			names = append(names, t.pkg)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%s. Run apt-get install --no-install-recommends %s", strings.Join(lines, "; "), strings.Join(names, " "))
}

// setup is an image that is being made.
type setup struct {
	SetupOptions
	temp     string
	manifest Manifest
}

func (s *setup) path(name string) string { return filepath.Join(s.temp, name) }

// root makes the root file system.
func (s *setup) root(ctx context.Context) error {
	folder := s.Root
	if folder == "" {
		s.Log("downloading the root file system from " + s.Suite)
		list := slices.Concat(packages, s.Packages)
		if err := run(ctx, s.temp, "mmdebstrap", "--quiet", "--variant=extract", "--include="+strings.Join(list, ","), s.Suite, s.path("root.tar")); err != nil {
			return err
		}
		folder = s.path("root")
		if err := errors.Join(os.Mkdir(folder, 0o755), os.Chmod(folder, 0o755)); err != nil {
			return err
		}
		// Exclude /dev: the VM makes its devices, and only root can make them here.
		if err := run(ctx, s.temp, "tar", "-C", folder, "--exclude=./dev/*", "-xf", s.path("root.tar")); err != nil {
			return err
		}
		s.compile(ctx, folder)
	}
	if _, err := os.Stat(filepath.Join(folder, "bin/sh")); err != nil {
		return fmt.Errorf("the root file system needs a shell: %w", err)
	}
	for language, program := range map[string]string{"shell": "bin/sh", "python": "usr/bin/python3", "javascript": "usr/bin/node"} {
		if _, err := os.Stat(filepath.Join(folder, program)); err == nil {
			s.manifest.Languages = append(s.manifest.Languages, language)
		}
	}
	slices.Sort(s.manifest.Languages)
	return s.pack(ctx, folder)
}

// compile compiles Python's library, so that VMs need not do so in every run: their root
// is read-only. It must run the image's Python, which needs root rights.
func (s *setup) compile(ctx context.Context, folder string) {
	if os.Geteuid() != 0 {
		s.Log("not root: Python's library is not compiled, so imports take longer")
		return
	}
	if err := run(ctx, s.temp, "chroot", folder, "/usr/bin/python3", "-m", "compileall", "-q", "/usr/lib"); err != nil {
		s.Log("Python's library is not compiled: " + err.Error())
	}
}

// pack makes a file system image of a folder.
func (s *setup) pack(ctx context.Context, folder string) error {
	s.Log("making the root file system")
	for _, name := range vm.Mountpoints {
		path := filepath.Join(folder, name)
		if s.Root != "" {
			if _, err := os.Stat(path); err != nil {
				return fmt.Errorf("VMs use /%s as a mount point, so the folder must contain it: %w", name, err)
			}
		} else if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o755)); err != nil {
			return err
		}
	}
	size, err := sizeOf(folder)
	if err != nil {
		return err
	}
	mib := size>>20 + size>>22 + 32 // add a quarter for the file system's own data
	return run(ctx, s.temp, "mke2fs", "-q", "-t", "ext4", "-d", folder, "-m", "0", "-O", "^has_journal", "-E", "root_owner=0:0", s.path(rootFile), fmt.Sprintf("%dM", mib))
}

func sizeOf(folder string) (size int64, err error) {
	const block = 4096
	err = filepath.WalkDir(folder, func(_ string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += (info.Size() + block) / block * block
		}
		return err
	})
	return size, err
}

// publish replaces the previous image.
func (s *setup) publish() error {
	s.manifest.SHA256 = map[string]string{}
	for _, name := range []string{kernelFile, modulesFile, rootFile} {
		sum, err := checksum(s.path(name))
		if err != nil {
			return err
		}
		s.manifest.SHA256[name] = sum
	}
	if err := os.Remove(filepath.Join(s.Folder, manifestFile)); err != nil && !os.IsNotExist(err) {
		return err
	}
	for name := range s.manifest.SHA256 {
		if err := errors.Join(os.Chmod(s.path(name), 0o644), os.Rename(s.path(name), filepath.Join(s.Folder, name))); err != nil {
			return err
		}
	}
	// The snapshots were made with the previous image.
	if err := os.RemoveAll(filepath.Join(s.Folder, "snapshots")); err != nil {
		return err
	}
	data, err := json.MarshalIndent(s.manifest, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(s.Folder, manifestFile), append(data, '\n'), 0o644)
}

// run runs a program; the error contains the end of its output.
func run(ctx context.Context, dir, name string, args ...string) error {
	_, err := output(ctx, dir, name, args...)
	return err
}

func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	output := newConsole()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, output), output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, output.end())
	}
	return out.String(), nil
}

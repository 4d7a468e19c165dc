package microvm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// modules are the modules that a VM loads, in this order. A module that is built into a
// kernel is not in its package. QEMU's VMs communicate over virtio_console, Firecracker's
// over vsock.
var modules = []string{
	"virtio_ring", "virtio", "virtio_mmio", "virtio_blk", "virtio_console",
	"vsock", "vmw_vsock_virtio_transport_common", "vmw_vsock_virtio_transport",
}

// kernel makes the kernel and the modules of the image.
func (s *setup) kernel(ctx context.Context) error {
	from := s.Kernel
	if from == "" {
		var err error
		if from, err = s.download(ctx); err != nil {
			return err
		}
	}
	if strings.HasSuffix(from, ".deb") {
		return s.unpackKernel(ctx, from)
	}
	image, err := os.ReadFile(from)
	if err == nil {
		image, err = vmlinux(ctx, image)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	s.manifest.Kernel = filepath.Base(from)
	return s.writeKernel(image, nil)
}

// download downloads the package of Debian's cloud kernel, which is small and supports
// virtual machines.
func (s *setup) download(ctx context.Context) (string, error) {
	const meta = "linux-image-cloud-amd64"
	list, err := output(ctx, s.temp, "apt-cache", "depends", "--important", meta)
	if err != nil {
		return "", err
	}
	_, after, found := strings.Cut(list, "Depends: ")
	name, _, _ := strings.Cut(after, "\n")
	if !found || strings.ContainsAny(name, "<> |") {
		return "", fmt.Errorf("apt has no package for %s: run apt-get update, or choose a kernel with --kernel", meta)
	}
	s.Log("downloading " + name)
	if err := run(ctx, s.temp, "apt-get", "download", name); err != nil {
		return "", err
	}
	files, err := filepath.Glob(s.path(name + "_*.deb"))
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("apt-get has not downloaded %s", name)
	}
	return files[0], nil
}

// unpackKernel extracts the kernel and the modules from a package.
func (s *setup) unpackKernel(ctx context.Context, deb string) error {
	s.Log("unpacking the kernel")
	deb, err := filepath.Abs(deb)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	output := newConsole()
	cmd.Stderr = output
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	image, found, err := s.readPackage(pipe)
	_, _ = io.Copy(io.Discard, pipe) // otherwise dpkg-deb fails
	if werr := cmd.Wait(); err == nil && werr != nil {
		err = fmt.Errorf("dpkg-deb: %w: %s", werr, output.end())
	}
	if err != nil {
		return err
	}
	if image == nil {
		return fmt.Errorf("%s contains no kernel /boot/vmlinuz-*", deb)
	}
	if image, err = vmlinux(ctx, image); err != nil {
		return err
	}
	return s.writeKernel(image, found)
}

// readPackage reads the kernel and the needed modules.
func (s *setup) readPackage(r io.Reader) (image []byte, found map[string][]byte, err error) {
	wanted := map[string]string{}
	for _, name := range modules {
		for _, suffix := range []string{".ko", ".ko.xz", ".ko.zst"} {
			wanted[name+suffix] = name
		}
	}
	found = map[string][]byte{}
	for t := tar.NewReader(r); ; {
		head, err := t.Next()
		if errors.Is(err, io.EOF) {
			return image, found, nil
		}
		if err != nil {
			return nil, nil, err
		}
		base := path.Base(head.Name)
		if release, ok := strings.CutPrefix(base, "vmlinuz-"); ok && head.Typeflag == tar.TypeReg {
			s.manifest.Kernel = release
			if image, err = io.ReadAll(t); err != nil {
				return nil, nil, err
			}
		}
		if _, ok := wanted[base]; ok {
			if found[base], err = io.ReadAll(t); err != nil {
				return nil, nil, err
			}
		}
	}
}

func (s *setup) writeKernel(image []byte, found map[string][]byte) error {
	if err := os.WriteFile(s.path(kernelFile), image, 0o644); err != nil {
		return err
	}
	var names []string
	for _, module := range modules {
		for _, suffix := range []string{".ko", ".ko.xz", ".ko.zst"} {
			if found[module+suffix] != nil {
				names = append(names, module+suffix)
			}
		}
	}
	f, err := os.Create(s.path(modulesFile))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := writeModules(f, names, func(name string) ([]byte, error) { return found[name], nil }); err != nil {
		return err
	}
	return f.Close()
}

// unpackers maps the magic numbers of compression formats to programs that decompress
// them.
var unpackers = []struct {
	magic   string
	program string
}{
	{"\x02\x21\x4c\x18", "lz4"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"\xfd7zXZ", "xz"},
}

// vmlinux returns the kernel in a bzImage (the kernel's
// Documentation/arch/x86/boot.rst), which monitors start directly.
func vmlinux(ctx context.Context, image []byte) ([]byte, error) {
	if bytes.HasPrefix(image, []byte("\x7fELF")) {
		return image, nil
	}
	const setupSectors, headerMagic, payloadOffset, payloadLength = 0x1f1, 0x202, 0x248, 0x24c
	if len(image) < payloadLength+4 || string(image[headerMagic:headerMagic+4]) != "HdrS" {
		return nil, errors.New("neither a vmlinux nor a bzImage")
	}
	sectors := int(image[setupSectors])
	if sectors == 0 {
		sectors = 4
	}
	start := (sectors+1)*512 + int(binary.LittleEndian.Uint32(image[payloadOffset:]))
	end := start + int(binary.LittleEndian.Uint32(image[payloadLength:]))
	if start < 0 || end > len(image) || end-start < 8 {
		return nil, errors.New("the header points outside of the file")
	}
	packed := image[start:end]
	unpacked, err := unpack(ctx, packed)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(unpacked, []byte("\x7fELF")) {
		return nil, errors.New("the packed kernel is not an ELF file")
	}
	return unpacked, nil
}

func unpack(ctx context.Context, packed []byte) ([]byte, error) {
	if bytes.HasPrefix(packed, []byte("\x1f\x8b")) {
		r, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, err
		}
		r.Multistream(false)
		return io.ReadAll(r)
	}
	for _, u := range unpackers {
		if !bytes.HasPrefix(packed, []byte(u.magic)) {
			continue
		}
		// The kernel's build appends the size, which is not part of the format.
		cmd := exec.CommandContext(ctx, u.program, "-dc")
		cmd.Stdin = bytes.NewReader(packed[:len(packed)-4])
		output := newConsole()
		cmd.Stderr = output
		out, err := cmd.Output()
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fmt.Errorf("packed with %s, which is missing: run apt-get install %[1]s", u.program)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", u.program, err, output.end())
		}
		return out, nil
	}
	return nil, fmt.Errorf("packed with an unknown format (%x): use an uncompressed vmlinux", packed[:4])
}

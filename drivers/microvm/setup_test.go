//go:build linux

package microvm

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bzImage packs a payload like the kernel's build.
func bzImage(payload []byte) []byte {
	image := make([]byte, 2*512)
	image[0x1f1] = 1
	copy(image[0x202:], "HdrS")
	binary.LittleEndian.PutUint32(image[0x24c:], uint32(len(payload)))
	return append(image, payload...)
}

func TestAKernelIsUnpacked(t *testing.T) {
	t.Parallel()
	elf := []byte("\x7fELF and more")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(elf); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	packed.WriteString("size")
	for _, tt := range []struct {
		name  string
		image []byte
		fails string
	}{
		{"a vmlinux", elf, ""},
		{"a bzImage", bzImage(packed.Bytes()), ""},
		{"no kernel", []byte("text"), "neither"},
		{"a cut one", bzImage(packed.Bytes())[:1030], "outside"},
		{"one packed with something unknown", bzImage([]byte("????????")), "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := vmlinux(t.Context(), tt.image)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !bytes.Equal(got, elf) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestASetupNamesAllToolsThatAreMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Setup(t.Context(), SetupOptions{Folder: t.TempDir()})
	if err == nil {
		t.Fatal("Setup found the tools")
	}
	for _, name := range []string{"mke2fs", "apt-get", "dpkg-deb", "mmdebstrap", "tar", "apt-get install --no-install-recommends e2fsprogs"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
}

func TestAChangedImageIsDetected(t *testing.T) {
	t.Parallel()
	s := setup{SetupOptions: SetupOptions{Folder: t.TempDir()}, temp: t.TempDir()}
	for _, name := range []string{kernelFile, modulesFile, rootFile} {
		if err := os.WriteFile(s.path(name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Verify(s.Folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without an image: %v", err)
	}
	if err := s.publish(); err != nil {
		t.Fatal(err)
	}
	if err := Verify(s.Folder); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(s.Folder, rootFile), []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Verify(s.Folder); err == nil || !strings.Contains(err.Error(), rootFile) {
		t.Errorf("after a change: %v", err)
	}
}

func TestAGuestThatNeedsLibrariesIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, modulesFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for guest, want := range map[string]string{"/bin/sh": "CGO_ENABLED=0", "/etc/passwd": "not a program"} {
		if _, err := initrd(folder, guest); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", guest, err)
		}
	}
}

func TestTheConsoleKeepsTheEndAndTheReport(t *testing.T) {
	t.Parallel()
	c := newConsole()
	for range 100 {
		_, _ = c.Write(bytes.Repeat([]byte("noise "), 1000))
	}
	if _, ok := c.report(); ok {
		t.Error("a report in noise")
	}
	_, _ = c.Write([]byte("\r\ntoolroom-report: {\"code\":7,\"oom\":true}\r\nrebooting"))
	if r, ok := c.report(); !ok || r.Code != 7 || !r.OOM {
		t.Errorf("%+v, %v", r, ok)
	}
	if len(c.String()) > c.Limit || !strings.HasSuffix(c.end(), "rebooting") {
		t.Errorf("%d bytes, ending %q", len(c.String()), c.end()[len(c.end())-20:])
	}
}

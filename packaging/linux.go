package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// linuxPackages writes a deb and an rpm package for each Linux platform.
func linuxPackages(r *release, builds []*build) error {
	manual, err := manuals(r)
	if err != nil {
		return err
	}
	for _, b := range builds {
		for format, arch := range map[string]string{"deb": b.deb, "rpm": b.rpm} {
			if arch == "" {
				continue
			}
			if err := r.linuxPackage(b, manual, format, arch); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) linuxPackage(b *build, manual []entry, format, arch string) error {
	staging, err := os.MkdirTemp("", "toolroom-"+format+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "toolroom", Arch: arch, Platform: "linux", Version: r.version.semver, VersionSchema: "semver",
		Maintainer: "The Toolroom authors <toolroom@example.org>", Vendor: "Toolroom", Homepage: homepage,
		License: "Apache-2.0", Section: "utils", Priority: "optional", MTime: r.date,
		Description: description + ".\nConnect MCP servers, APIs, command-line programs and functions; control and record every call.",
		Overridables: nfpm.Overridables{
			Recommends: []string{"python3", "git"},
			RPM:        nfpm.RPM{Summary: description, BuildHost: "localhost"},
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(r.root, "packaging/files/postinstall.sh"),
				PreRemove:   filepath.Join(r.root, "packaging/files/preremove.sh"),
			},
		},
	})
	add := func(from, to string, mode os.FileMode) {
		info.Contents = append(info.Contents, &files.Content{
			Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.date, Owner: "root", Group: "root"},
		})
	}
	for _, from := range b.programs() {
		add(from, "/usr/bin/"+filepath.Base(from), 0o755)
	}
	add(filepath.Join(r.root, "packaging/files/toolroom.service"), "/usr/lib/systemd/system/toolroom.service", 0o644)
	add(filepath.Join(r.root, "LICENSE"), "/usr/share/doc/toolroom/copyright", 0o644)
	for _, e := range manual {
		from, to, data := filepath.Join(staging, strings.ReplaceAll(e.name, "/", "_")), "/usr/"+e.name, e.data
		if strings.HasSuffix(to, ".1") {
			to += ".gz"
			if data, err = gzipped(data); err != nil {
				return err
			}
		}
		if err := os.WriteFile(from, data, 0o644); err != nil {
			return err
		}
		add(from, to, 0o644)
	}
	return create(r.file(packager.ConventionalFileName(info)), func(w io.Writer) error { return packager.Package(info, w) })
}

func gzipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

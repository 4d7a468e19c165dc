package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// imageUser is the user and group in the image.
const imageUser = 65532

// authorities are the usual paths of the CA certificates to put into the image.
var authorities = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// image writes a container image for each Linux platform, for docker load. It needs no base
// image from a registry, because the image contains only the programs.
func image(r *release, builds []*build) error {
	for _, b := range builds {
		if b.os != "linux" {
			continue
		}
		img, err := r.image(b)
		if err != nil {
			return err
		}
		tag, err := name.NewTag("toolroom:" + unusual.ReplaceAllString(r.version.semver, "-"))
		if err != nil {
			return err
		}
		out := r.file(fmt.Sprintf("toolroom-%s-image-%s.tar", r.version.semver, b.arch))
		if err := tarball.WriteToFile(out, tag, img); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) image(b *build) (v1.Image, error) {
	trusted, err := readFirst(authorities)
	if err != nil {
		return nil, err
	}
	list := append(b.binaries("usr/bin"),
		entry{name: "etc/passwd", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\ntoolroom:x:%d:%d:Toolroom:/var/lib/toolroom:/sbin/nologin\n", imageUser, imageUser)},
		entry{name: "etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\ntoolroom:x:%d:\n", imageUser)},
		entry{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: trusted},
		entry{name: "tmp", mode: fs.ModeDir | 0o777},
		entry{name: "var/lib/toolroom", mode: fs.ModeDir | 0o700, user: imageUser},
		entry{name: "etc/toolroom", mode: fs.ModeDir | 0o755},
	)
	var files bytes.Buffer
	if err := writeTar(&files, r.date, list); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(opener(files.Bytes()))
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = b.arch, b.os, v1.Time{Time: r.date}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
		Env:          []string{"PATH=/usr/bin", "HOME=/var/lib/toolroom", "TOOLROOM_HOME=/var/lib/toolroom"},
		Entrypoint:   []string{"/usr/bin/toolroom"},
		Cmd:          []string{"serve", "--listen", "0.0.0.0:7070"},
		WorkingDir:   "/var/lib/toolroom",
		ExposedPorts: map[string]struct{}{"7070/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/toolroom": {}},
		StopSignal:   "SIGTERM",
		Labels: map[string]string{
			"org.opencontainers.image.title": "Toolroom", "org.opencontainers.image.description": description,
			"org.opencontainers.image.source": homepage, "org.opencontainers.image.version": r.version.semver,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(img, config)
}

func readFirst(paths []string) ([]byte, error) {
	var errs []error
	for _, path := range paths {
		data, err := os.ReadFile(filepath.Clean(path))
		if err == nil {
			return data, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("the image needs this machine's certificate authorities (install ca-certificates): %w", errors.Join(errs...))
}

func opener(data []byte) tarball.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

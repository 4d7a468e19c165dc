package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// An entry is a file in an archive. Its content is data, or the file at from.
type entry struct {
	name string
	mode fs.FileMode
	data []byte
	from string
	// user owns the file, in archives that keep owners.
	user int
}

func (e entry) content() ([]byte, error) {
	if e.from == "" {
		return e.data, nil
	}
	return os.ReadFile(e.from)
}

// binaries returns the programs of a build as entries below dir.
func (b *build) binaries(dir string) []entry {
	var list []entry
	for _, from := range b.programs() {
		list = append(list, entry{name: path.Join(dir, filepath.Base(from)), mode: 0o755, from: from})
	}
	return list
}

// archives writes one archive for each platform: a zip file for Windows, else a tar.gz.
func archives(r *release, builds []*build) error {
	manual, err := manuals(r)
	if err != nil {
		return err
	}
	for _, b := range builds {
		name := fmt.Sprintf("toolroom-%s-%s-%s", r.version.semver, b.os, b.arch)
		list := b.binaries(name)
		for _, doc := range []string{"README.md", "LICENSE"} {
			list = append(list, entry{name: path.Join(name, doc), mode: 0o644, from: filepath.Join(r.root, doc)})
		}
		if b.os == "windows" {
			err = writeZip(r.file(name+".zip"), r.date, list)
		} else {
			for _, e := range manual {
				e.name = path.Join(name, e.name)
				list = append(list, e)
			}
			err = writeTarGz(r.file(name+".tar.gz"), r.date, list)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// create writes a file with write, and removes it if that fails.
func create(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

func writeTarGz(name string, date time.Time, list []entry) error {
	return create(name, func(w io.Writer) error {
		packed := gzip.NewWriter(w)
		return errors.Join(writeTar(packed, date, list), packed.Close())
	})
}

func writeTar(w io.Writer, date time.Time, list []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range list {
		data, err := e.content()
		if err != nil {
			return err
		}
		header := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Size: int64(len(data)), ModTime: date, Uid: e.user, Gid: e.user}
		if e.mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, e.name+"/"
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeZip(name string, date time.Time, list []entry) error {
	return create(name, func(w io.Writer) error {
		archive := zip.NewWriter(w)
		for _, e := range list {
			data, err := e.content()
			if err != nil {
				return err
			}
			header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: date}
			header.SetMode(e.mode)
			into, err := archive.CreateHeader(header)
			if err != nil {
				return err
			}
			if _, err := into.Write(data); err != nil {
				return err
			}
		}
		return archive.Close()
	})
}

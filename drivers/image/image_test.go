package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/toolroom/toolroom"
)

// tree writes a tar file like mmdebstrap, with entries that an image must not contain.
func tree(t *testing.T, at time.Time) string {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./bin/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./bin/su", Typeflag: tar.TypeReg, Mode: 0o4755, Size: 2},
		{Name: "./bin/hard", Typeflag: tar.TypeLink, Linkname: "./bin/su"},
		{Name: "./bin/sh", Typeflag: tar.TypeSymlink, Linkname: "dash", Mode: 0o777},
		{Name: "./dev/", Typeflag: tar.TypeDir, Mode: 0o755},
		{Name: "./dev/null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		{Name: "./etc/passwd", Typeflag: tar.TypeReg, Size: 2},
	} {
		h.ModTime = at
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tree.tar")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func options(t *testing.T) Options {
	t.Helper()
	guest := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(guest, []byte("the guest"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Options{Guest: guest}
}

func archive(t *testing.T, o Options, at time.Time) []byte {
	t.Helper()
	layer, err := os.Create(filepath.Join(t.TempDir(), "layer.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	if err := writeLayer(layer, tree(t, at), o); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeArchive(&out, layer, o); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func files(t *testing.T, text []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode&0o6000 != 0 || h.Typeflag == tar.TypeChar || !h.ModTime.Equal(defaultTime) {
			t.Errorf("%s has the mode %o, the type %c and the time %s", h.Name, h.Mode, h.Typeflag, h.ModTime)
		}
		all[h.Name], err = io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestBuildsFromTheSamePackagesAreIdentical(t *testing.T) {
	t.Parallel()
	o := options(t)
	if first, second := archive(t, o, time.Unix(1, 0)), archive(t, o, time.Unix(2, 0)); !bytes.Equal(first, second) {
		t.Error("two builds differ")
	}
}

func TestTheImageRefersToItsPartsByTheirDigests(t *testing.T) {
	t.Parallel()
	all := files(t, archive(t, options(t), time.Unix(1, 0)))
	var index ocispec.Index
	var manifest ocispec.Manifest
	var docker []dockerManifest
	read := func(name string, into any) {
		t.Helper()
		if err := json.Unmarshal(all[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	read("index.json", &index)
	read(blobPath(index.Manifests[0]), &manifest)
	read("manifest.json", &docker)
	want := []dockerManifest{{Config: blobPath(manifest.Config), RepoTags: []string{Name}, Layers: []string{blobPath(manifest.Layers[0])}}}
	if diff := cmp.Diff(want, docker); diff != "" {
		t.Error(diff)
	}
	layer := files(t, all[blobPath(manifest.Layers[0])])
	if string(layer["usr/local/bin/toolroom-guest"]) != "the guest" || string(layer["etc/passwd"]) == "xx" {
		t.Errorf("the layer contains the guest %q and the users %q", layer["usr/local/bin/toolroom-guest"], layer["etc/passwd"])
	}
}

func TestARootIsUnpackedIntoAnEmptyFolderOnly(t *testing.T) {
	t.Parallel()
	o, folder := options(t), filepath.Join(t.TempDir(), "root")
	if err := unpackLayer(tree(t, time.Unix(1, 0)), folder, o); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(folder, "bin", "hard"))
	if err != nil || info.Mode() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
	if err := unpackLayer(tree(t, time.Unix(1, 0)), folder, o); err == nil {
		t.Error("a folder that is not empty was accepted")
	}
}

func TestABuildWithoutMmdebstrapSaysHowToGetIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := Build(t.Context(), options(t), func(*Tree) error { return nil })
	var known *toolroom.Error
	if !errors.As(err, &known) || known.Code != toolroom.CodeUnsupported || known.Hints() == "" {
		t.Errorf("%v", err)
	}
}

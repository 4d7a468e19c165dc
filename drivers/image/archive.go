package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"runtime"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// LanguagesLabel is the image label that lists the languages the image can run, separated
// by commas.
const LanguagesLabel = "toolroom.languages"

// writeArchive writes an image layout with the layer.
func writeArchive(w io.Writer, layer *os.File, o Options) error {
	o = o.withDefaults()
	layerBlob, err := blobOf(layer, ocispec.MediaTypeImageLayer)
	if err != nil {
		return err
	}
	config := ocispec.Image{
		Created:  &o.Time,
		Platform: ocispec.Platform{Architecture: runtime.GOARCH, OS: "linux"},
		Config: ocispec.ImageConfig{
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"},
			Cmd:        []string{"/bin/sh"},
			WorkingDir: "/work",
			Labels:     map[string]string{LanguagesLabel: o.languages()},
		},
		RootFS:  ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layerBlob.Digest}},
		History: []ocispec.History{{Created: &o.Time, CreatedBy: "toolroom image build"}},
	}
	configBlob, configText, err := encode(config, ocispec.MediaTypeImageConfig)
	if err != nil {
		return err
	}
	manifestBlob, manifestText, err := encode(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: configBlob, Layers: []ocispec.Descriptor{layerBlob},
	}, ocispec.MediaTypeImageManifest)
	if err != nil {
		return err
	}
	manifestBlob.Annotations = map[string]string{"io.containerd.image.name": Name, ocispec.AnnotationRefName: "latest"}
	_, indexText, err := encode(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{manifestBlob},
	}, "")
	if err != nil {
		return err
	}
	_, dockerText, err := encode([]dockerManifest{{Config: blobPath(configBlob), RepoTags: []string{Name}, Layers: []string{blobPath(layerBlob)}}}, "")
	if err != nil {
		return err
	}
	_, layoutText, err := encode(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}, "")
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, f := range []struct {
		name    string
		size    int64
		content io.Reader
	}{
		{blobPath(layerBlob), layerBlob.Size, layer},
		{blobPath(configBlob), configBlob.Size, bytes.NewReader(configText)},
		{blobPath(manifestBlob), manifestBlob.Size, bytes.NewReader(manifestText)},
		{ocispec.ImageIndexFile, int64(len(indexText)), bytes.NewReader(indexText)},
		{"manifest.json", int64(len(dockerText)), bytes.NewReader(dockerText)},
		{ocispec.ImageLayoutFile, int64(len(layoutText)), bytes.NewReader(layoutText)},
	} {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: 0o644, Size: f.size, ModTime: o.Time, Format: tar.FormatPAX}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, f.content); err != nil {
			return err
		}
	}
	return out.Close()
}

// dockerManifest is an entry of manifest.json, as written by docker save.
type dockerManifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func blobPath(d ocispec.Descriptor) string { return "blobs/sha256/" + d.Digest.Encoded() }

func encode(v any, mediaType string) (ocispec.Descriptor, []byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}, text, nil
}

func blobOf(f *os.File, mediaType string) (ocispec.Descriptor, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return ocispec.Descriptor{}, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	return ocispec.Descriptor{MediaType: mediaType, Digest: digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(sum.Sum(nil))), Size: size}, err
}

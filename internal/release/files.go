package release

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"path"
)

// The files of an upload are texts. A WebAssembly module is one in base64 of gzip.

// PackFile returns the content of a file as the text of a file of an upload.
func PackFile(name string, content []byte) (string, error) {
	if path.Ext(name) != ".wasm" {
		return string(content), nil
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := z.Write(content); err != nil {
		return "", err
	}
	if err := z.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// maxUnpacked bounds a module that is unpacked.
const maxUnpacked = 256 << 20

// UnpackFile returns the content of a file of an upload.
func UnpackFile(name, text string) ([]byte, error) { return unpackFile(name, text, maxUnpacked) }

func unpackFile(name, text string, limit int64) ([]byte, error) {
	if path.Ext(name) != ".wasm" {
		return []byte(text), nil
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || !bytes.HasPrefix(packed, []byte("\x1f\x8b")) {
		return packed, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(z, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

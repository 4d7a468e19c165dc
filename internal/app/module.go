package app

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"

	"github.com/toolroom/toolroom"
)

// ReadModule reads a WebAssembly module from a file, for [toolroom.Program], and compresses
// it: modules are often larger than the arguments of a call may be (4 MiB, unless the
// config changes that).
func ReadModule(path string) ([]byte, error) {
	module, err := os.ReadFile(path)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "cannot read the module: %w", err)
	}
	return PackModule(module)
}

// PackModule compresses a WebAssembly module for [toolroom.Program].
func PackModule(module []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write(module)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("pack the module: %w", err)
	}
	return packed.Bytes(), nil
}

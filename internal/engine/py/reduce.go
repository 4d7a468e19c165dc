//go:build ignore

// This program makes python.wasm of this repository from the published one, see
// README.md: it drops the custom sections (half of the file is debug data) and exports
// the stack pointer, which must be restored after a run.
//
//	go run ./internal/engine/py/reduce.go < published.wasm > python.wasm
package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	module, err := io.ReadAll(os.Stdin)
	if err == nil {
		module, err = reduce(module)
	}
	if err == nil {
		_, err = os.Stdout.Write(module)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// The identities of sections, and of the kind of an export, in the binary
// format of WebAssembly core 2.0, 5.5.
const (
	customSection = 0
	exportSection = 7
	globalExport  = 3
)

// stackPointer is the name that is added, for global 0.
const stackPointer = "__stack_pointer"

func reduce(module []byte) ([]byte, error) {
	const header = "\x00asm\x01\x00\x00\x00"
	rest, ok := bytes.CutPrefix(module, []byte(header))
	if !ok {
		return nil, errors.New("it is no WebAssembly module of version 1")
	}
	out := []byte(header)
	for len(rest) > 0 {
		id := rest[0]
		size, n := binary.Uvarint(rest[1:])
		if n <= 0 || size > uint64(len(rest)-1-n) {
			return nil, errors.New("a section is cut off")
		}
		body := rest[1+n:][:size]
		rest = rest[1+n:][size:]
		switch id {
		case customSection:
			continue
		case exportSection:
			count, n := binary.Uvarint(body)
			if n <= 0 {
				return nil, errors.New("the exports are cut off")
			}
			added := binary.AppendUvarint(nil, count+1)
			added = append(added, body[n:]...)
			added = append(append(added, byte(len(stackPointer))), stackPointer...)
			body = append(added, globalExport, 0)
		}
		out = append(binary.AppendUvarint(append(out, id), uint64(len(body))), body...)
	}
	return out, nil
}

package py

import (
	"context"
	_ "embed" // of boot.py
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// bootScript starts the guest, and stops where the image is taken.
//
//go:embed boot.py
var bootScript string

// arguments are the interpreter's arguments: ignore the environment, write no files, use UTF-8.
var arguments = []string{"python", "-I", "-B", "-X", "utf8", "-c", bootScript}

// booting is the state of a starting machine for the host functions.
type booting struct {
	files    []byte // input of the script
	function uint32 // its output, the address of the function to call
	messages strings.Builder
}

// vectorcall is the offset in a function object of the function that calls it, an
// index in the table: Include/cpython/funcobject.h of CPython 3.12, with 32-bit
// words.
const vectorcall = 64

// errFrozen ends main when the image is taken.
var errFrozen = errors.New("the image is to be taken")

func (i *Isolate) boot(ctx context.Context, guest map[string]string) (layout, error) {
	files, err := json.Marshal(guest)
	if err != nil {
		return layout{}, err
	}
	i.booting = &booting{files: files}
	defer func() { i.booting = nil }()
	_, err = i.Module.ExportedFunction("_start").Call(wasm.WithIsolate(ctx, i))
	if !errors.Is(err, errFrozen) {
		return layout{}, fmt.Errorf("the interpreter did not start: %w: %.2000s", err, i.booting.messages.String())
	}
	l := layout{StackPointer: uint32(i.StackPointer()), Function: i.booting.function}
	call, ok := i.Module.Memory().ReadUint32Le(l.Function + vectorcall)
	if !ok {
		return layout{}, errors.New("the guest's function is nowhere")
	}
	l.Call = call
	return l, nil
}

// freeze is called whenever the clock is read, a system call that the interpreter
// makes in the middle of Python code, holding its lock.
func (b *booting) freeze() {
	if b.function != 0 {
		panic(errFrozen)
	}
}

// write takes the output of the starting machine: the address of the function on
// descriptor 0, and error messages on 1 and 2.
func (b *booting) write(fd uint32, data []byte) {
	if fd != 0 {
		b.messages.Write(data)
		return
	}
	_, _ = fmt.Sscanf(string(data), "%d", &b.function) // with 0 the boot continues and fails
}

func (b *booting) read(to []byte) int {
	n := copy(to, b.files)
	b.files = b.files[n:]
	return n
}

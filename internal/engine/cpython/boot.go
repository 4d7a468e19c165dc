package cpython

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

// arguments are those of the interpreter: isolated from the environment,
// nothing written, text in UTF-8.
var arguments = []string{"python", "-I", "-B", "-X", "utf8", "-c", bootScript}

// booting is the start of a machine, as the doors see it.
type booting struct {
	files    []byte // what the script reads
	function uint32 // what it says, the address of the function to call
	said     strings.Builder
}

// vectorcall is where a function object has the address of what calls it, as
// an index in the table: Include/cpython/funcobject.h of CPython 3.12, with
// words of 32 bits.
const vectorcall = 64

// errFrozen ends main where the image is taken.
var errFrozen = errors.New("the image is to be taken")

func (i *Isolate) boot(ctx context.Context, guest map[string]string) (layout, error) {
	files, err := json.Marshal(guest)
	if err != nil {
		return layout{}, err
	}
	i.booting = &booting{files: files}
	defer func() { i.booting = nil }()
	_, err = i.Module.ExportedFunction("_start").Call(wasm.With(ctx, i))
	if !errors.Is(err, errFrozen) {
		return layout{}, fmt.Errorf("the interpreter did not come up: %w: %.2000s", err, i.booting.said.String())
	}
	l := layout{StackPointer: uint32(i.StackPointer()), Function: i.booting.function}
	call, ok := i.Module.Memory().ReadUint32Le(l.Function + vectorcall)
	if !ok {
		return layout{}, errors.New("the guest's function is nowhere")
	}
	l.Call = call
	return l, nil
}

// freeze is called at every look at the clock, which is a system call that the
// interpreter makes in the midst of Python, holding its lock.
func (b *booting) freeze() {
	if b.function != 0 {
		panic(errFrozen)
	}
}

// write takes what is written while the machine starts: to 0 the address of
// the function, to 1 and 2 complaints.
func (b *booting) write(fd uint32, data []byte) {
	if fd != 0 {
		b.said.Write(data)
		return
	}
	_, _ = fmt.Sscanf(string(data), "%d", &b.function) // at 0 the boot goes on, and ends
}

func (b *booting) read(to []byte) int {
	n := copy(to, b.files)
	b.files = b.files[n:]
	return n
}

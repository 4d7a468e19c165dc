package wasm

import "errors"

// A [Memory] is reset, exactly, to an [Image] taken once: start an engine, take its image,
// and every run begins from the same bytes.
//
// On Linux the image is a memory file that instances map privately, so that they share
// unwritten pages. The kernel's page map says which pages were written, and only those are
// copied back. Without a page map the written pages are dropped, and on other systems the
// whole image is copied, which is slower and as exact.

// ErrGrown means that a memory is larger than its image and cannot be reset. Its
// instance must be dropped, because a WebAssembly memory never shrinks.
var ErrGrown = errors.New("the memory has grown past its image")

// PageSize is the size of a WebAssembly page in bytes.
const PageSize = 64 << 10

// Package cow keeps the linear memory of WebAssembly instances so that it can
// be put back, exactly, to an image taken once: start an engine, freeze it,
// and every run begins from the same bytes.
//
// On Linux the image is a memory file that instances map privately, so that
// they share what they do not write, and the kernel's page map tells which
// pages were written; only those are copied back. Where there is no page map
// the written pages are dropped, and elsewhere the whole image is copied:
// slower, and as exact.
package cow

import "errors"

// ErrGrown says that a memory is larger than its image and cannot be put
// back: the instance that owns it must be dropped, for a WebAssembly memory
// never shrinks.
var ErrGrown = errors.New("the memory has grown past its image")

// PageSize is the size of a WebAssembly page in bytes.
const PageSize = 64 << 10

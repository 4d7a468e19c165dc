package module_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// asking returns a module that makes a system call again and again, with 64 MiB of memory
// that is all zero. The call has these parameters, and takes words alone.
func asking(call string, parameters ...int32) []byte {
	list := func(items ...[]byte) []byte {
		return append(binary.AppendUvarint(nil, uint64(len(items))), slices.Concat(items...)...)
	}
	text := func(s string) []byte { return append(binary.AppendUvarint(nil, uint64(len(s))), s...) }
	section := func(id byte, body []byte) []byte {
		return append(append([]byte{id}, binary.AppendUvarint(nil, uint64(len(body)))...), body...)
	}
	word := func(n int32) (b []byte) { // signed LEB128
		for more := true; more; n >>= 7 {
			more = n>>6 != 0 && n>>6 != -1
			b = append(b, byte(n&0x7f)|map[bool]byte{true: 0x80}[more])
		}
		return b
	}
	takes := make([][]byte, len(parameters))
	code := []byte{0, 0x03, 0x40} // no variables, loop
	for i, p := range parameters {
		takes[i] = []byte{0x7f}
		code = append(append(code, 0x41), word(p)...)
	}
	code = append(code, 0x10, 0, 0x1a, 0x0c, 0, 0x0b, 0x0b) // call, drop, br 0, end, end
	module := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range [][]byte{
		section(1, list(slices.Concat([]byte{0x60}, list(takes...), list([]byte{0x7f})), []byte{0x60, 0, 0})),
		section(2, list(slices.Concat(text("wasi_snapshot_preview1"), text(call), []byte{0, 0}))),
		section(3, list([]byte{1})),
		section(5, list(append([]byte{0}, binary.AppendUvarint(nil, 1024)...))),
		section(7, list(append(text("memory"), 2, 0), append(text("_start"), 0, 1))),
		section(10, list(append(binary.AppendUvarint(nil, uint64(len(code))), code...))),
	} {
		module = append(module, s...)
	}
	return module
}

func TestTimeInSystemCallsIsProcessorTime(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for name, module := range map[string][]byte{
		"random numbers":            asking("random_get", 0, 64<<20-1),
		"reading to many nowheres":  asking("fd_read", 0, 0, -1, 0),
		"writing of many nothings":  asking("fd_write", 1, 0, -1, 0),
		"many things to wait for":   asking("poll_oneoff", 65536, 131072, 1024, 0),
		"arguments that are copied": asking("args_get", 0, 65536),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := engine.Job{Run: "run", Owner: "tester", Program: bridge.Program{
				Language: "wasm", Name: "main.wasm", Module: module, Command: []string{string(make([]byte, 1<<20))}, Limits: bridge.Limits{Wall: 15_000, CPU: 300},
			}}
			result, err := e.Run(t.Context(), j, &screen{})
			if failed := toolroom.AsError(err); err == nil || failed.Limit != "cpu" {
				t.Errorf("it ended with %v, %+v", err, result.Outcome.Failure)
			}
		})
	}
}

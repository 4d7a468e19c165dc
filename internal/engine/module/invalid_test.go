package module_test

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/module"
)

// The modules here are written by hand in the binary format.

func section(id byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(append([]byte{id}, leb(len(body))...), body...)
}

// leb returns an unsigned number in LEB128.
func leb(n int) []byte {
	var out []byte
	for n >= 0x80 {
		out = append(out, byte(n)|0x80)
		n >>= 7
	}
	return append(out, byte(n))
}

func name(s string) []byte { return append(leb(len(s)), s...) }

// command returns a module with one page of memory. Its _start has this code, and it
// imports a function with this name that takes one number.
func command(from, function string, code ...byte) []byte {
	return withMemory([]byte{0, 1}, from, function, code...)
}

func withMemory(memory []byte, from, function string, code ...byte) []byte {
	body := append(append([]byte{0}, code...), 0x0b)
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, []byte{2, 0x60, 0, 0, 0x60, 1, 0x7f, 0}),
		section(2, []byte{1}, name(from), name(function), []byte{0, 1}),
		section(3, []byte{1, 0}),
		section(5, []byte{1}, memory),
		section(7, []byte{2}, name("_start"), []byte{0, 1}, name("memory"), []byte{2, 0}),
		section(10, []byte{1}, leb(len(body)), body),
	}, nil)
}

const wasi = "wasi_snapshot_preview1"

// exits returns a command that exits with this code.
func exits(code byte) []byte { return command(wasi, "proc_exit", 0x41, code, 0x10, 0) }

func TestAModuleThatIsNotACommandIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	e := opened(t)
	empty := []byte("\x00asm\x01\x00\x00\x00")
	for what, c := range map[string]struct {
		module []byte
		says   string
	}{
		"nothing":                     {nil, "there is no module"},
		"a huge module":               {make([]byte, 16<<20), "pack it by gzip"},
		"a text":                      {[]byte("print(1)"), "not a WebAssembly module"},
		"a component":                 {[]byte("\x00asm\x0d\x00\x01\x00"), "not a WebAssembly module"},
		"a module that is cut":        {exits(0)[:40], "module"},
		"an empty module":             {empty, "exports no function _start"},
		"an import that is not there": {command("env", "emscripten_asm"), "env.emscripten_asm"},
		"a WASI call that is none":    {command(wasi, "fd_frobnicate"), "wasi_snapshot_preview1.fd_frobnicate"},
		"a WASI call of other types":  {command(wasi, "fd_close"), "fd_close"},
		"the meter's import":          {command("toolroom_fuel", "tick"), "toolroom_fuel"},
		"a packed thing that is cut":  {packed(t, exits(0))[:20], "unpack"},
		"a huge table":                {append(bytes.Clone(empty), section(4, []byte{1, 0x70, 0}, leb(1<<30))...), "table"},
		"code that does not validate": {command(wasi, "proc_exit", 0x6a), "i32.add"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			j := engine.Job{Owner: "tester", Program: bridge.Program{Language: "wasm", Name: "main.wasm", Module: c.module, Limits: bridge.Limits{Wall: 120_000}}}
			result, _ := run(t, e, j)
			f := result.Outcome.Failure
			if f == nil || f.Kind != bridge.FailCheck || !strings.Contains(f.Message, c.says) {
				t.Errorf("it ended with %+v, want a check that says %q", f, c.says)
			}
		})
	}
}

func TestAModuleThatEndsEarlyReportsWhy(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for what, c := range map[string]struct {
		module []byte
		kind   bridge.FailureKind
		says   string
	}{
		"recursion without end": {command(wasi, "proc_exit", 0x10, 1, 0x10, 1), bridge.FailProgram, "stack overflow"},
		"unreachable code":      {command(wasi, "proc_exit", 0x00), bridge.FailProgram, "unreachable"},
		"memory out of bounds":  {command(wasi, "proc_exit", 0x41, 0x7f, 0x2d, 0, 0, 0x1a), bridge.FailProgram, "out of bounds"},
		"a division by zero":    {command(wasi, "proc_exit", 0x41, 1, 0x41, 0, 0x6d, 0x1a), bridge.FailProgram, "divide by zero"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			j := engine.Job{Owner: "tester", Program: bridge.Program{Language: "wasm", Name: "main.wasm", Module: c.module, Limits: bridge.Limits{Wall: 120_000}}}
			result, _ := run(t, e, j)
			f := result.Outcome.Failure
			if f == nil || f.Kind != c.kind || !strings.Contains(f.Message, c.says) || strings.Contains(f.Message, "\n") {
				t.Errorf("it ended with %+v, want %s that says %q in one line", f, c.kind, c.says)
			}
		})
	}
}

func TestInitialMemoryIsWithinTheLimit(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for what, c := range map[string]struct {
		memory []byte
		limit  int64
		code   toolroom.Code
	}{
		"as much as allowed":       {append([]byte{0}, leb(16)...), 1 << 20, ""},
		"a page more":              {append([]byte{0}, leb(17)...), 1 << 20, toolroom.CodeResourceLimit},
		"four gigabytes":           {append([]byte{0}, leb(65536)...), 1 << 20, toolroom.CodeResourceLimit},
		"a gigabyte more than may": {append([]byte{0}, leb(1)...), 2 << 30, toolroom.CodeLimitNotEnforceable},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			j := engine.Job{Owner: "tester", Program: bridge.Program{Language: "wasm", Name: "main.wasm", Module: withMemory(c.memory, wasi, "proc_exit"), Limits: bridge.Limits{Wall: 120_000, Memory: c.limit}}}
			result, err := e.Run(t.Context(), j, &screen{})
			if toolroom.CodeOf(err) != c.code {
				t.Errorf("it ended with %v, want %q (%+v)", err, c.code, result)
			}
		})
	}
}

func TestCompilingAModuleTimesOut(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := module.New(module.Options{Command: []string{self, module.WorkerArg}, CompileTime: time.Millisecond})
	t.Cleanup(func() { _ = e.Close() })
	j := program(t, "two")
	_, err = e.Run(t.Context(), j, &screen{})
	if toolroom.CodeOf(err) != toolroom.CodeResourceLimit || !strings.Contains(err.Error(), "not compiled within 1ms") {
		t.Errorf("it ended with %v", err)
	}
}

package module_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// The modules here do things that no compiler generates. After each, the same
// worker, or its replacement, must run a good module as usual.

// imported is a WASI function with its parameters: i and l for 32-bit and 64-bit
// numbers.
type imported struct{ name, parameters string }

// attack is a module. Its _start has code; its function 2 has start, if any, which
// is executed first. Function 0 is proc_exit, and function 1 is the imported one.
// It has a table of one element and this memory.
type attack struct {
	imported
	code, start []byte
	memory      []byte // its limits; one page that may grow if empty
	table       []byte // its limits; one element that may grow if empty
}

func (a attack) module() []byte {
	called := a.imported
	if called.name == "" {
		called.name = "sched_yield"
	}
	if len(a.memory) == 0 {
		a.memory = []byte{0, 1}
	}
	if len(a.table) == 0 {
		a.table = []byte{0, 1}
	}
	types := [][]byte{{3}, {0x60, 0, 0}, {0x60, 1, 0x7f, 0}, {0x60}, leb(len(called.parameters)), []byte(strings.NewReplacer("i", "\x7f", "l", "\x7e").Replace(called.parameters)), {1, 0x7f}}
	function := func(code []byte) []byte {
		body := append(append([]byte{1, 1, 0x7f}, code...), 0x0b) // one local
		return append(leb(len(body)), body...)
	}
	parts := [][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(1, types...),
		section(2, []byte{2}, name(wasi), name("proc_exit"), []byte{0, 1}, name(wasi), name(called.name), []byte{0, 2}),
		section(3, []byte{2, 0, 0}),
		section(4, []byte{1, 0x70}, a.table),
		section(5, []byte{1}, a.memory),
		section(7, []byte{2}, name("_start"), []byte{0, 3}, name("memory"), []byte{2, 0}),
	}
	if a.start != nil {
		parts = append(parts, section(8, []byte{2}))
	}
	parts = append(parts, section(10, []byte{2}, function(a.start), function(a.code)))
	return bytes.Join(parts, nil)
}

// number pushes a constant.
func number(n int32) []byte { return append([]byte{0x41}, signed(int64(n))...) }

// asks returns code that calls the imported function with the same number for all
// parameters, and exits with its result.
func asks(f imported, n int32) []byte {
	var code []byte
	for _, p := range f.parameters {
		one := number(n)
		if p == 'l' {
			one[0] = 0x42
		}
		code = append(code, one...)
	}
	return append(code, 0x10, 1, 0x10, 0)
}

// forever repeats code.
func forever(code ...byte) []byte {
	return bytes.Join([][]byte{{0x03, 0x40}, code, {0x0c, 0, 0x0b}}, nil)
}

func nested(blocks int) []byte {
	return append(bytes.Repeat([]byte{0x02, 0x40}, blocks), bytes.Repeat([]byte{0x0b}, blocks)...)
}

// functions lists the functions of WASI preview 1 except proc_exit and sched_yield.
var functions = []imported{
	{"args_get", "ii"},
	{"args_sizes_get", "ii"},
	{"environ_get", "ii"},
	{"environ_sizes_get", "ii"},
	{"clock_res_get", "ii"},
	{"clock_time_get", "ili"},
	{"random_get", "ii"},
	{"poll_oneoff", "iiii"},
	{"proc_raise", "i"},
	{"fd_read", "iiii"},
	{"fd_write", "iiii"},
	{"fd_fdstat_get", "ii"},
	{"fd_filestat_get", "ii"},
	{"fd_fdstat_set_flags", "ii"},
	{"fd_fdstat_set_rights", "ill"},
	{"fd_seek", "ilii"},
	{"fd_tell", "ii"},
	{"fd_prestat_get", "ii"},
	{"fd_prestat_dir_name", "iii"},
	{"fd_advise", "illi"},
	{"fd_allocate", "ill"},
	{"fd_close", "i"},
	{"fd_datasync", "i"},
	{"fd_filestat_set_size", "il"},
	{"fd_filestat_set_times", "illi"},
	{"fd_pread", "iiili"},
	{"fd_pwrite", "iiili"},
	{"fd_readdir", "iiili"},
	{"fd_renumber", "ii"},
	{"fd_sync", "i"},
	{"path_create_directory", "iii"},
	{"path_filestat_get", "iiiii"},
	{"path_filestat_set_times", "iiiilli"},
	{"path_link", "iiiiiii"},
	{"path_open", "iiiiillii"},
	{"path_readlink", "iiiiii"},
	{"path_remove_directory", "iii"},
	{"path_rename", "iiiiii"},
	{"path_symlink", "iiiii"},
	{"path_unlink_file", "iii"},
	{"sock_accept", "iii"},
	{"sock_recv", "iiiiii"},
	{"sock_send", "iiiii"},
	{"sock_shutdown", "ii"},
}

func hostile(a attack, wall int64) engine.Job {
	return engine.Job{Owner: "tester", Program: bridge.Program{
		Language: "wasm", Name: "main.wasm", Module: a.module(), Limits: bridge.Limits{Wall: wall, Memory: 1 << 20},
	}}
}

// well fails the test unless a good module runs as usual.
func well(t *testing.T, e engine.Engine) {
	t.Helper()
	j := engine.Job{Owner: "tester", Program: bridge.Program{Language: "wasm", Name: "main.wasm", Module: exits(7), Limits: bridge.Limits{Wall: 120_000}}}
	if result, _ := run(t, e, j); result.Outcome.Failure != nil || result.Outcome.Exit != 7 {
		t.Errorf("a good module ended with %+v", result.Outcome)
	}
}

func TestFunctionsOfTheSystemTakeAnyNumber(t *testing.T) {
	t.Parallel()
	e := opened(t)
	const lastErrno = 76
	for _, f := range functions {
		for _, n := range []int32{-1, 0, 1, 4, 65535, 65536, 1<<31 - 1, -1 << 31} {
			result, _ := run(t, e, hostile(attack{imported: f, code: asks(f, n)}, 120_000))
			if f2 := result.Outcome.Failure; f2 != nil && f2.Type != "ProtocolError" || result.Outcome.Exit > lastErrno {
				t.Errorf("%s of %d ended with %+v", f.name, n, result.Outcome)
			}
			system := strings.HasPrefix(f.name, "path_") || strings.HasPrefix(f.name, "sock_") || f.name == "fd_renumber" || f.name == "proc_raise"
			if system && result.Outcome.Exit == 0 {
				t.Errorf("%s of %d succeeded", f.name, n)
			}
		}
	}
	well(t, e)
}

func TestDamageByAModuleEndsWithIt(t *testing.T) {
	t.Parallel()
	e := open(t, 1)
	t.Cleanup(func() { _ = e.Close() })
	grow := func(of ...byte) []byte { return append(number(1<<14), of...) }
	for _, c := range []struct {
		what string
		attack
		code toolroom.Code // of the error, or of the failure's kind
	}{
		{"it loops before its start", attack{start: forever()}, toolroom.CodeTimeout},
		{"it loops", attack{code: forever()}, toolroom.CodeTimeout},
		{"it asks for nothing for ever", attack{code: forever(0x10, 1, 0x1a)}, toolroom.CodeTimeout},
		{"it recurs before its start", attack{start: []byte{0x10, 2}}, toolroom.CodeExecutionFailed},
		{"it fills memory for ever", attack{memory: []byte{0, 16}, code: forever(bytes.Join([][]byte{number(0), number(1), number(1 << 20), {0xfc, 11, 0}}, nil)...)}, toolroom.CodeTimeout},
		{"it grows its memory for ever", attack{code: forever(grow(0x40, 0, 0x1a)...)}, toolroom.CodeTimeout},
		{"it grows its table for ever", attack{code: forever(append([]byte{0xd0, 0x70}, grow(0xfc, 15, 0, 0x1a)...)...)}, toolroom.CodeTimeout},
		{"it calls what its table does not have", attack{code: bytes.Join([][]byte{number(0), {0x11, 0, 0}}, nil)}, toolroom.CodeExecutionFailed},
		{"it calls beyond its table", attack{code: bytes.Join([][]byte{number(-1), {0x11, 0, 0}}, nil)}, toolroom.CodeExecutionFailed},
		{"it copies beyond its memory", attack{code: bytes.Join([][]byte{number(-1), number(0), number(65536), {0xfc, 10, 0, 0}}, nil)}, toolroom.CodeExecutionFailed},
		{"too many blocks within blocks", attack{code: nested(200_000)}, toolroom.CodeExecutionFailed},
		{"many blocks within blocks", attack{code: nested(5_000)}, ""},
		{"a jump to ten thousand places", attack{code: bytes.Join([][]byte{{0x02, 0x40}, number(3), {0x0e}, leb(10_000), make([]byte, 10_001), {0x0b}}, nil)}, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			wall := int64(120_000)
			if c.code == toolroom.CodeTimeout {
				wall = 500
			}
			result, err := e.Run(t.Context(), hostile(c.attack, wall), &screen{})
			code := toolroom.CodeOf(err)
			if err == nil && result.Outcome.Failure != nil {
				code = toolroom.CodeExecutionFailed
			}
			if c.code != "" && code != c.code {
				t.Errorf("it ended with %v, %+v, want %s", err, result, c.code)
			}
			well(t, e)
		})
	}
}

func TestAModuleSeesNothingOfTheRunBefore(t *testing.T) {
	t.Parallel()
	e := open(t, 1)
	t.Cleanup(func() { _ = e.Close() })
	// It reads the last byte of its first and of its further pages, and then fills
	// all of them.
	look := bytes.Join([][]byte{
		number(15),
		{0x40, 0, 0x1a},
		number(65535),
		{0x2d, 0, 0},
		number(1<<20 - 1),
		{0x2d, 0, 0, 0x6a},
		{0x21, 0}, // the local holds the bytes that it read
		number(0), number(42), number(1 << 20),
		{0xfc, 11, 0},
		{0x20, 0, 0x10, 0},
	}, nil)
	for range 5 {
		result, _ := run(t, e, hostile(attack{code: look}, 120_000))
		if result.Outcome.Failure != nil || result.Outcome.Exit != 0 {
			t.Fatalf("it ended with %+v", result.Outcome)
		}
	}
}

func TestAHardenedModuleLearnsNoTimeFromAnyClock(t *testing.T) {
	t.Parallel()
	e := opened(t)
	for id := range int32(4) {
		// The time lies at 0; beyond the year 2000, in seconds, it is at most some thousands.
		code := bytes.Join([][]byte{
			number(id),
			{0x42, 0},
			number(0),
			{0x10, 1, 0x1a},
			number(0),
			{0x29, 3, 0},
			{0x42},
			signed(1_000_000_000),
			{0x80},
			{0x42},
			signed(946_684_800),
			{0x7d, 0xa7, 0x10, 0},
		}, nil)
		j := hostile(attack{imported: imported{"clock_time_get", "ili"}, code: code}, 120_000)
		j.Sandbox.Profile = sandbox.Hardened
		result, _ := run(t, e, j)
		if result.Outcome.Failure != nil || id < 2 && result.Outcome.Exit != 0 {
			t.Errorf("clock %d shows %d seconds past the year 2000: %+v", id, result.Outcome.Exit, result.Outcome)
		}
	}
}

// signed returns a number in signed LEB128.
func signed(n int64) []byte {
	var out []byte
	for {
		b := byte(n & 0x7f)
		n >>= 7
		if n == 0 && b&0x40 == 0 || n == -1 && b&0x40 != 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

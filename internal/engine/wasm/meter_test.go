package wasm_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// modules are written by hand in the binary format, so that each says what it
// tests.
func module(sections ...[]byte) []byte {
	out := []byte("\x00asm\x01\x00\x00\x00")
	for _, s := range sections {
		out = append(out, s...)
	}
	return out
}

func section(id byte, body ...byte) []byte {
	return append([]byte{id, byte(len(body))}, body...)
}

var (
	noParams   = section(1, 1, 0x60, 0, 0)
	oneFunc    = section(3, 1, 0)
	exportRun  = section(7, 1, 3, 'r', 'u', 'n', 0, 0)
	onePage    = section(5, 1, 0, 1)
	endless    = module(noParams, oneFunc, exportRun, section(10, 1, 7, 0, 0x03, 0x40, 0x0c, 0, 0x0b, 0x0b))
	recursive  = module(noParams, oneFunc, exportRun, section(10, 1, 4, 0, 0x10, 0, 0x0b))
	bulk       = module(noParams, oneFunc, onePage, exportRun, section(10, 1, 18, 0, 0x03, 0x40, 0x41, 0, 0x41, 1, 0x41, 0xff, 0xff, 0x03, 0xfc, 11, 0, 0x0c, 0, 0x0b, 0x0b))
	straight   = module(noParams, oneFunc, exportRun, section(10, 1, 2, 0, 0x0b))
	startsWith = module(noParams, section(3, 2, 0, 0), section(7, 1, 3, 'r', 'u', 'n', 0, 1), section(8, 0), section(10, 2, 2, 0, 0x0b, 2, 0, 0x0b))
	byTable    = module(noParams, section(3, 2, 0, 0), section(4, 1, 0x70, 0, 1), section(7, 1, 3, 'r', 'u', 'n', 0, 1),
		section(9, 1, 0, 0x41, 0, 0x0b, 1, 0), section(10, 2, 7, 0, 0x03, 0x40, 0x0c, 0, 0x0b, 0x0b, 7, 0, 0x41, 0, 0x11, 0, 0, 0x0b))
)

// hiddenLoop writes the opcode of v128.const, 12, in two bytes. Whoever reads one byte of it, as
// wazero does, finds another instruction, and a loop in what is the constant for others.
var hiddenLoop = section(10, append([]byte{1, 26, 0, 0x02, 0x40, 0x0c, 0, 0xfd, 0x8c, 0},
	0x0b, 0x03, 0x40, 0x0c, 0, 0x0b, 0x02, 0x40, 1, 1, 1, 1, 1, 1, 1, 1, 0x0b, 0x0b)...)

var errOut = errors.New("out of fuel")

// run runs a rewritten module and returns how often the host was asked.
func run(t *testing.T, original []byte, units uint64, ticks int) (int, error) {
	t.Helper()
	rewritten, err := wasm.Meter(original)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	asked := 0
	_, err = r.NewHostModuleBuilder(wasm.FuelModule).NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module) {
		asked++
		if asked > ticks {
			panic(errOut)
		}
		m.ExportedGlobal(wasm.FuelGlobal).(api.MutableGlobal).Set(units)
	}).Export(wasm.FuelImport).Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.InstantiateWithConfig(ctx, rewritten, wazero.NewModuleConfig())
	if err != nil {
		t.Fatalf("the rewritten module is refused: %v", err)
	}
	_, err = m.ExportedFunction("run").Call(ctx)
	return asked, err
}

func TestCodeThatDoesNotEndIsStoppedByItsHost(t *testing.T) {
	t.Parallel()
	for name, m := range map[string][]byte{"a loop": endless, "a loop reached through a table": byTable, "bulk operations": bulk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, err := run(t, m, 1000, 5)
			if !errors.Is(err, errOut) || asked != 6 {
				t.Errorf("asked %d times, error %v; want 6 times and %v", asked, err, errOut)
			}
		})
	}
}

func TestRecursionIsMeteredAtEachEntry(t *testing.T) {
	t.Parallel()
	if asked, err := run(t, recursive, 100, 5); !errors.Is(err, errOut) || asked != 6 {
		t.Errorf("asked %d times, error %v", asked, err)
	}
}

func TestBulkOperationsPayByTheirLength(t *testing.T) {
	t.Parallel()
	// 65535 bytes are 1023 units: a thousand units last for one turn only.
	asked, err := run(t, bulk, 1000, 20)
	if !errors.Is(err, errOut) || asked != 21 {
		t.Errorf("asked %d times, error %v", asked, err)
	}
}

func TestCodeThatEndsIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, m := range map[string][]byte{"straight": straight, "with a start function": startsWith} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := run(t, m, 1000, 100); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestATableGrowsToItsBoundAndNoFurther(t *testing.T) {
	t.Parallel()
	// run returns the result of table.grow by the number; -1 means refused.
	grow := func(by ...byte) []byte {
		code := append(append([]byte{0, 0xd0, 0x70, 0x41}, by...), 0xfc, 15, 0, 0x0b)
		return module(section(1, 1, 0x60, 0, 1, 0x7f), oneFunc, section(4, 1, 0x70, 0, 1), exportRun, section(10, append([]byte{1, byte(len(code))}, code...)...))
	}
	for name, c := range map[string]struct {
		module []byte
		want   int32
	}{
		"within it":   {grow(0x24), 1},
		"beyond it":   {grow(0x80, 0x80, 0xc0, 0), -1}, // 1 << 20
		"far past it": {grow(0xff, 0xff, 0xff, 0xff, 0), -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rewritten, err := wasm.Meter(c.module)
			if err != nil {
				t.Fatal(err)
			}
			r := wazero.NewRuntime(t.Context())
			defer r.Close(t.Context())
			if _, err := r.NewHostModuleBuilder(wasm.FuelModule).NewFunctionBuilder().WithFunc(func() {}).Export(wasm.FuelImport).Instantiate(t.Context()); err != nil {
				t.Fatal(err)
			}
			m, err := r.Instantiate(t.Context(), rewritten)
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.ExportedFunction("run").Call(t.Context())
			if err != nil || int32(got[0]) != c.want {
				t.Errorf("it gave %v, %v; want %d", got, err, c.want)
			}
		})
	}
}

func TestWhatCannotBeMeteredIsRefused(t *testing.T) {
	t.Parallel()
	fuelImport := append([]byte{1, byte(len(wasm.FuelModule))}, wasm.FuelModule...)
	fuelImport = append(fuelImport, 1, 'x', 0, 0)
	fuelExport := append([]byte{1, byte(len(wasm.FuelGlobal))}, wasm.FuelGlobal...)
	fuelExport = append(fuelExport, 0, 0)
	for name, m := range map[string][]byte{
		"nothing":                   nil,
		"text":                      []byte("hello"),
		"another version":           []byte("\x00asm\x02\x00\x00\x00"),
		"a component":               []byte("\x00asm\x0d\x00\x01\x00"),
		"a section twice":           module(noParams, noParams),
		"sections out of order":     module(oneFunc, noParams),
		"an unknown section":        module(section(77, 0)),
		"a section cut short":       module([]byte{1, 40, 1}),
		"a list that cannot fit":    module(section(1, 0xff, 0xff, 0xff, 0xff, 0x0f)),
		"an atomic instruction":     module(noParams, oneFunc, section(10, 1, 6, 0, 0xfe, 0x03, 0, 0x0b, 0x0b)),
		"a vector in two ways":      module(noParams, oneFunc, exportRun, hiddenLoop),
		"a block with a long type":  module(noParams, oneFunc, section(10, 1, 9, 0, 0x02, 0x63, 0x70, 0xd0, 0x70, 0x0b, 0x1a, 0x0b)),
		"such a type, padded":       module(noParams, oneFunc, section(10, 1, 10, 0, 0x02, 0xe3, 0x7f, 0x70, 0xd0, 0x70, 0x0b, 0x1a, 0x0b)),
		"a select of a long type":   module(noParams, oneFunc, section(10, 1, 13, 0, 0xd0, 0x70, 0xd0, 0x70, 0x41, 0, 0x1c, 1, 0x63, 0x70, 0x1a, 0x0b)),
		"a local of a long type":    module(noParams, oneFunc, section(10, 1, 6, 1, 1, 0x63, 0x70, 0x01, 0x0b)),
		"a global of a long type":   module(section(6, 1, 0x63, 0x70, 0, 0xd0, 0x70, 0x0b)),
		"a result of a long type":   module(section(1, 1, 0x60, 0, 1, 0x63, 0x70)),
		"a table of a long type":    module(section(4, 1, 0x63, 0, 0, 1)),
		"an element of a long type": module(section(9, 1, 5, 0x63, 0x70, 0)),
		"a tail call":               module(noParams, oneFunc, section(10, 1, 4, 0, 0x12, 0, 0x0b)),
		"a shared memory":           module(section(2, 1, 1, 'a', 1, 'b', 2, 3, 1, 1)),
		"the meter's own import":    module(noParams, section(2, fuelImport...)),
		"the meter's own export":    module(noParams, oneFunc, section(7, fuelExport...), section(10, 1, 2, 0, 0x0b)),
		"a body without an end":     module(noParams, oneFunc, section(10, 1, 2, 0, 0x01)),
		"a body past its end":       module(noParams, oneFunc, section(10, 1, 3, 0, 0x0b, 0x0b)),
		"more bodies than types":    module(noParams, oneFunc, section(10, 2, 2, 0, 0x0b, 2, 0, 0x0b)),
		"a write of the counter":    module(noParams, oneFunc, section(10, 1, 6, 0, 0x42, 1, 0x24, 0, 0x0b)),
		"a read of the counter":     module(noParams, oneFunc, section(10, 1, 5, 0, 0x23, 0, 0x1a, 0x0b)),
		"a huge table":              module(section(4, 1, 0x70, 0, 0x81, 0x80, 0x40)),
		"nine tables":               module(section(4, 9, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1, 0x70, 0, 1)),
		"a type that is not here":   module(noParams, section(3, 1, 9), section(10, 1, 2, 0, 0x0b)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := wasm.Meter(m); err == nil {
				t.Errorf("%d bytes were made of it", len(out))
			}
		})
	}
}

// FuzzMeter holds that nothing panics, and that what wazero takes before
// metering it takes after.
func FuzzMeter(f *testing.F) {
	for _, m := range [][]byte{endless, recursive, bulk, straight, startsWith, byTable, nil, []byte("\x00asm\x01\x00\x00\x00")} {
		f.Add(m)
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	f.Cleanup(func() { _ = r.Close(ctx) })
	f.Fuzz(func(t *testing.T, original []byte) {
		rewritten, err := wasm.Meter(original)
		if err != nil || hasCustomSection(original) {
			return
		}
		before, err := r.CompileModule(ctx, original)
		if err != nil {
			return
		}
		defer before.Close(ctx)
		after, err := r.CompileModule(ctx, rewritten)
		if err != nil {
			t.Fatalf("wazero takes the module, not its metered form: %v", err)
		}
		_ = after.Close(ctx)
	})
}

// hasCustomSection looks into a module that Meter has parsed. wazero believes
// the lengths in custom sections and makes room for gigabytes; they do not
// reach it once Meter has dropped them.
func hasCustomSection(module []byte) bool {
	for at := 8; at < len(module); {
		if module[at] == 0 {
			return true
		}
		size, n := binary.Uvarint(module[at+1:])
		at += 1 + n + int(size)
	}
	return false
}

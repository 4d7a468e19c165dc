// Package module is the engine for WebAssembly modules that callers supply: WASI
// preview 1 commands, metered before they are compiled. A module's only access to the
// system is its streams, and it calls tools over descriptor 3, in frames of the bridge.
// [New] runs modules in worker processes of this same binary. A [Machine] runs them in
// this process and does not isolate them from it; a worker or a sandbox does.
package module

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// LanguageCompile is the language of a program that is compiled and not run. A
// following program without a module runs the module compiled last.
const LanguageCompile = "wasm-compile"

const (
	// MaxMemory is the largest limit of a module's memory, in bytes.
	MaxMemory = 1 << 30
	// MaxModule is the largest module, in bytes, unpacked.
	MaxModule = 64 << 20
)

const (
	// fuel is how many units a module gets at a time, enough for some milliseconds.
	fuel = 400_000
	// maxCompiled is how many modules a worker keeps compiled.
	maxCompiled = 4
	// start is the function that a command exports to be run.
	start = "_start"
)

// Machine compiles modules and runs them, one at a time, each in its own instance
// and memory.
type Machine struct {
	runtime  wazero.Runtime
	compiled []compiled // the last used is last
}

// compiled is a module in machine code, and its source.
type compiled struct {
	hash [sha256.Size]byte
	code wazero.CompiledModule
}

// NewMachine returns a machine.
func NewMachine(ctx context.Context) (*Machine, error) {
	// Each run has its own memory limit, which notices refused requests.
	config := wazero.NewRuntimeConfig().WithDebugInfoEnabled(false)
	m := &Machine{runtime: wazero.NewRuntimeWithConfig(ctx, config)}
	_, err := m.runtime.NewHostModuleBuilder(wasm.FuelModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(tick), nil, nil).Export(wasm.FuelImport).Instantiate(ctx)
	if err == nil {
		err = wasm.OfferWASI(ctx, m.runtime, func(ctx context.Context) wasm.System { return runFrom(ctx) })
	}
	if err != nil {
		_ = m.Close() // the first error counts
		return nil, fmt.Errorf("offer a module its imports: %w", err)
	}
	return m, nil
}

// Close ends the machine.
func (m *Machine) Close() error { return m.runtime.Close(context.Background()) }

// tick is called when the fuel is used up. It ends a run that was stopped.
func tick(ctx context.Context, module api.Module, _ []uint64) {
	runFrom(ctx).tick()
	module.ExportedGlobal(wasm.FuelGlobal).(api.MutableGlobal).Set(fuel)
}

// compile compiles a module and keeps it as the last of a few. A failure describes
// the defect of the module.
func (m *Machine) compile(ctx context.Context, data []byte) *bridge.Failure {
	hash := sha256.Sum256(data)
	if at := slices.IndexFunc(m.compiled, func(c compiled) bool { return c.hash == hash }); at >= 0 {
		c := m.compiled[at]
		m.compiled = append(slices.Delete(m.compiled, at, at+1), c)
		return nil
	}
	code, err := m.build(ctx, data)
	if err != nil {
		return &bridge.Failure{Kind: bridge.FailCheck, Type: TypeInvalid, Message: err.Error()}
	}
	if len(m.compiled) == maxCompiled {
		_ = m.compiled[0].code.Close(ctx) // freeing code in memory cannot fail
		m.compiled = slices.Delete(m.compiled, 0, 1)
	}
	m.compiled = append(m.compiled, compiled{hash, code})
	return nil
}

// maxModuleFrame is the size of the largest module that fits in a frame of the bridge, packed or not.
const maxModuleFrame = bridge.MaxFrame - 64<<10

// Check returns a failure if bytes cannot be a module, so that they are not sent to a worker.
func Check(module []byte) *bridge.Failure {
	refused := &bridge.Failure{Kind: bridge.FailCheck, Type: TypeInvalid}
	switch n := len(module); {
	case n == 0:
		refused.Message = "there is no module"
	case n > maxModuleFrame:
		refused.Message = fmt.Sprintf("the module has %d bytes, at most %d are sent to where it runs: pack it by gzip", n, maxModuleFrame)
	default:
		return nil
	}
	return refused
}

// TypeInvalid is the type of the failure of a module that cannot be run.
const TypeInvalid = "InvalidModule"

func (m *Machine) build(ctx context.Context, data []byte) (wazero.CompiledModule, error) {
	data, err := unpack(data)
	if err != nil {
		return nil, err
	}
	metered, err := wasm.Meter(data)
	if err != nil {
		return nil, err
	}
	code, err := m.runtime.CompileModule(experimental.WithCompilationWorkers(ctx, runtime.GOMAXPROCS(0)), metered)
	if err != nil {
		return nil, err
	}
	if err := check(code); err != nil {
		_ = code.Close(ctx) // the first error counts
		return nil, err
	}
	return code, nil
}

// check returns an error if a module cannot run. It names all missing functions.
func check(code wazero.CompiledModule) error {
	var missing []string
	for _, f := range code.ImportedFunctions() {
		from, name, _ := f.Import()
		if !(from == wasm.WASIModule && wasm.HasWASI(f) || from == wasm.FuelModule && name == wasm.FuelImport) {
			missing = append(missing, from+"."+name)
		}
	}
	for _, memory := range code.ImportedMemories() {
		from, name, _ := memory.Import()
		missing = append(missing, "the memory "+from+"."+name)
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	if len(missing) > 0 {
		further := ""
		if more := len(missing) - maxNamed; more > 0 {
			missing, further = missing[:maxNamed], fmt.Sprintf(" and %d more", more)
		}
		return fmt.Errorf("it imports %s%s, which do not exist here: a module has the functions of %s, and tools over descriptor 3", strings.Join(missing, ", "), further, wasm.WASIModule)
	}
	f, ok := code.ExportedFunctions()[start]
	switch {
	case !ok:
		return fmt.Errorf("it exports no function %s: build it as a command of WASI preview 1 (in Go GOOS=wasip1 GOARCH=wasm, in Rust the target wasm32-wasip1)", start)
	case len(f.ParamTypes()) > 0 || len(f.ResultTypes()) > 0:
		return fmt.Errorf("its function %s has parameters or results, which that of a command does not have", start)
	case code.ExportedMemories()["memory"] == nil:
		return errors.New("it exports no memory, as a command of WASI preview 1 does")
	}
	return nil
}

// maxNamed is how many missing imports an error names.
const maxNamed = 20

// execute runs the command that was compiled last until it ends.
func (m *Machine) execute(ctx context.Context, r *run) (err error) {
	code := m.compiled[len(m.compiled)-1].code
	if r.memory, err = wasm.NewMemory(MaxMemory, nil); err != nil {
		return err
	}
	r.memory.Limit = uint64(r.limit)
	handed := false
	defer func() {
		// wazero panics if it cannot allocate a module's initial memory.
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the module cannot be started: %v", broken)
		}
		if !handed {
			r.memory.Free()
		}
	}()
	ctx = context.WithValue(ctx, runKey{}, r)
	building := experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return r.memory }))
	instance, err := m.runtime.InstantiateModule(building, code, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return err
	}
	handed = true // from here on the instance frees it
	defer instance.Close(ctx)
	_, err = instance.ExportedFunction(start).Call(ctx)
	return err
}

// Package wasm runs language engines that are compiled to WebAssembly, on wazero. A
// [Machine] compiles and starts an engine once, and keeps an image of its memory.
// Each isolate is a private copy of that image, and is reset to it after each run,
// so that no run sees data of another. A session is the difference between a memory and
// the image, from which a later run continues. Packages quickjs and py have the engines.
//
// [Meter] makes a module stoppable, and [OfferWASI] gives it WASI preview 1.
package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// Engine describes the engine that a machine runs. I is its isolate type.
type Engine[I Isolate] struct {
	// Module is the WebAssembly module.
	Module []byte
	// MaxMemory limits the memory of an isolate, in bytes.
	MaxMemory uint64
	// Offer instantiates the host modules that Module imports, except the meter.
	Offer func(context.Context, wazero.Runtime) error
	// Open returns an isolate of a new instance. It looks up the functions that the
	// engine's package calls.
	Open func(*Instance) (I, error)
	// Tick is called, from within the guest, each time an isolate has used up its
	// fuel, after some milliseconds of work. It panics to end the run.
	Tick func(I)
}

// Isolate is implemented by types that embed an [*Instance].
type Isolate interface {
	instance() *Instance
}

// Machine makes isolates, once [Machine.Boot] or [Machine.UseImage] has set its image. One
// goroutine uses it at a time.
type Machine[I Isolate] struct {
	engine  Engine[I]
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	module  wazero.CompiledModule
	pagemap *Pagemap
	packer  *packer
	image   *Image
	stack   uint64 // the stack pointer of the image
	// name names the image. Machines with the same image can load each other's states,
	// because the engine starts the same way everywhere.
	name func() string
	idle []I // at most one that is as good as new
}

// New compiles the engine. CacheDir keeps compiled code between processes, and an image
// if the engine's package keeps one, which makes starts much shorter. Its files are
// executed, so it must be private. Empty means no cache. ctx bounds the compilation.
//
// What is broken in the cache, for example because power was lost while it was written, is
// made anew; if the folder cannot be written, New does without the cache.
func New[I Isolate](ctx context.Context, e Engine[I], cacheDir string) (*Machine[I], error) {
	folders := []string{cacheDir}
	if cacheDir != "" {
		folders = append(folders, cacheDir, "")
	}
	var broken error
	for _, folder := range folders {
		if broken != nil && folder != "" {
			clearCache(folder)
		}
		m := &Machine[I]{engine: e, packer: newPacker()}
		err := m.compile(ctx, folder)
		if err == nil {
			return m, nil
		}
		_ = m.Close() // the first error counts
		broken = cmp.Or(broken, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, broken
}

// clearCache removes the compiled code from a cache. It ignores errors, because a file that stays is
// not used.
func clearCache(cacheDir string) {
	for _, pattern := range []string{"wazero-*", meteredPrefix + "*"} {
		paths, _ := filepath.Glob(filepath.Join(cacheDir, pattern)) // the pattern is right
		for _, path := range paths {
			_ = os.RemoveAll(path)
		}
	}
}

func (m *Machine[I]) compile(ctx context.Context, cacheDir string) error {
	// Without a page map only resets are slower.
	m.pagemap, _ = OpenPagemap()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(m.engine.MaxMemory / PageSize)).WithDebugInfoEnabled(false)
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err != nil {
			return fmt.Errorf("open the cache of compiled code: %w", err)
		}
		m.cache, config = cache, config.WithCompilationCache(cache)
	}
	module, err := loadMetered(m.engine.Module, cacheDir)
	if err != nil {
		return err
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	_, err = m.runtime.NewHostModuleBuilder(FuelModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(m.tick), nil, nil).Export(FuelImport).Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("instantiate the meter: %w", err)
	}
	if err := m.engine.Offer(ctx, m.runtime); err != nil {
		return err
	}
	if m.module, err = m.runtime.CompileModule(ctx, module); err != nil {
		return fmt.Errorf("compile the engine: %w", err)
	}
	return nil
}

// tick is called when the fuel is used up.
func (m *Machine[I]) tick(ctx context.Context, _ api.Module, _ []uint64) {
	i := IsolateOf[I](ctx)
	i.instance().Refuel()
	m.engine.Tick(i)
}

// Boot starts the engine in a first isolate with start, which returns a name for
// the engine and what it has found out about it. The memory then becomes the image.
func (m *Machine[I]) Boot(ctx context.Context, start func(I) (about string, err error)) error {
	first, err := m.instantiate(ctx)
	if err != nil {
		return err
	}
	defer first.instance().close()
	about, err := start(first)
	if err != nil {
		return err
	}
	image, err := first.instance().memory.Freeze()
	if err != nil {
		return err
	}
	m.UseImage(image, first.instance().StackPointer(), about)
	return nil
}

// UseImage uses an image, and its stack pointer, that another machine has booted. This
// machine closes the image. About is what start returned in [Machine.Boot].
func (m *Machine[I]) UseImage(image *Image, stackPointer uint64, about string) {
	m.image, m.stack = image, stackPointer
	m.name = sync.OnceValue(func() string {
		h := sha256.New()
		fmt.Fprintf(h, "%s %d\n", about, stackPointer)
		h.Write(image.Bytes())
		return hex.EncodeToString(h.Sum(nil))
	})
}

// Image returns the image that isolates begin from.
func (m *Machine[I]) Image() *Image { return m.image }

// instantiate returns an isolate whose memory is as in the module, not yet as in
// the image.
func (m *Machine[I]) instantiate(ctx context.Context) (none I, err error) {
	pages, err := NewMemory(m.engine.MaxMemory, m.pagemap)
	if err != nil {
		return none, err
	}
	i := &Instance{memory: pages, packer: m.packer}
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory {
		return i.memory
	}))
	i.Module, err = m.runtime.InstantiateModule(ctx, m.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		pages.Free()
		return none, fmt.Errorf("instantiate the engine: %w", err)
	}
	isolate, err := none, i.findGlobals()
	if err == nil {
		isolate, err = m.engine.Open(i)
	}
	if err != nil {
		i.close()
		return none, err
	}
	return isolate, nil
}

// Isolate returns an isolate in which nothing has run. Return it with
// [Machine.Release].
func (m *Machine[I]) Isolate(ctx context.Context) (none I, err error) {
	if len(m.idle) > 0 {
		i := m.idle[0]
		m.idle = nil
		return i, nil
	}
	i, err := m.instantiate(ctx)
	if err != nil {
		return none, err
	}
	if err := i.instance().adopt(m.image, m.stack); err != nil {
		i.instance().close()
		return none, err
	}
	return i, nil
}

// Release takes an isolate back. It resets the isolate, or drops it if that is not
// possible exactly.
func (m *Machine[I]) Release(i I) {
	instance := i.instance()
	if len(m.idle) > 0 || !instance.reset(m.stack, m.engine.MaxMemory) {
		instance.close()
		return
	}
	m.idle = []I{i}
}

// Warm prepares one isolate, so that the first run need not wait for it.
func (m *Machine[I]) Warm(ctx context.Context) error {
	i, err := m.Isolate(ctx)
	if err != nil {
		return err
	}
	m.Release(i)
	return nil
}

// Close ends the machine. Isolates in use must have been released.
func (m *Machine[I]) Close() error {
	for _, i := range m.idle {
		i.instance().close()
	}
	ctx := context.Background()
	var problems []error
	if m.runtime != nil {
		problems = append(problems, m.runtime.Close(ctx))
	}
	if m.cache != nil {
		problems = append(problems, m.cache.Close(ctx))
	}
	if m.image != nil {
		problems = append(problems, m.image.Close())
	}
	if m.pagemap != nil {
		problems = append(problems, m.pagemap.Close())
	}
	return errors.Join(problems...)
}

// meteredPrefix begins the names of metered modules in a cache.
const meteredPrefix = "metered-"

// loadMetered returns the metered form of a module: from the cache, which saves some 13 ms of a
// start, or else a new one, which it caches. If the cache cannot be written, loadMetered ignores
// that.
func loadMetered(module []byte, cacheDir string) ([]byte, error) {
	if cacheDir == "" {
		return Meter(module)
	}
	sum := sha256.Sum256(module)
	path := filepath.Join(cacheDir, meteredPrefix+MeterVersion+"-"+hex.EncodeToString(sum[:12])+".wasm")
	if kept, err := os.ReadFile(path); err == nil {
		return kept, nil
	}
	rewritten, err := Meter(module)
	if err == nil {
		_ = atomicfile.Write(path, rewritten, 0o600) // failure is acceptable, see above
	}
	return rewritten, err
}

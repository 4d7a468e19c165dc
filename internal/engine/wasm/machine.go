// Package wasm runs language engines that are compiled to WebAssembly, on
// wazero. A [Machine] compiles an engine and starts it once, and keeps an image
// of its memory; each isolate is a private copy of that image, and is put back
// to it after each run, so that no run sees what another did. Packages quickjs
// and cpython are the engines.
package wasm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/toolroom/toolroom/internal/engine/cow"
	"github.com/toolroom/toolroom/internal/engine/cow/delta"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

// Engine is what a machine runs. I is an isolate of it as its package has it.
type Engine[I Isolate] struct {
	// Module is the WebAssembly.
	Module []byte
	// MaxMemory bounds the memory of an isolate, in bytes.
	MaxMemory uint64
	// Offer instantiates what the module imports, the meter excepted.
	Offer func(context.Context, wazero.Runtime) error
	// Open makes an isolate of a new instance: it finds in it what the engine's
	// package calls.
	Open func(*Instance) (I, error)
	// Tick is called, from within the guest, each time that an isolate has used
	// up its fuel, some milliseconds of work. It panics to end what runs.
	Tick func(I)
}

// Isolate is a type that embeds an [*Instance].
type Isolate interface {
	instance() *Instance
}

// Options say how a machine is built.
type Options struct {
	// CacheDir keeps compiled code between processes, and an image where the
	// engine's package keeps one, which takes most of the start away. What lies
	// there is executed: it must be private. Empty means no cache.
	CacheDir string
	// Idle is how many isolates are kept ready, 1 if zero.
	Idle int
}

// Machine makes isolates. Its methods may be called concurrently, once
// [Machine.Boot] or [Machine.Begin] has given it its image.
type Machine[I Isolate] struct {
	engine  Engine[I]
	limit   int // of idle
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	module  wazero.CompiledModule
	pagemap *cow.Pagemap
	packer  *delta.Packer
	image   *cow.Image
	stack   uint64 // the stack pointer of the image
	name    func() string

	mu     sync.Mutex
	idle   []I
	closed bool
}

// New compiles the engine. ctx bounds that.
func New[I Isolate](ctx context.Context, e Engine[I], o Options) (*Machine[I], error) {
	m := &Machine[I]{engine: e, limit: max(o.Idle, 1), packer: delta.NewPacker()}
	if err := m.compile(ctx, o.CacheDir); err != nil {
		_ = m.Close() // the first error counts
		return nil, err
	}
	return m, nil
}

func (m *Machine[I]) compile(ctx context.Context, cacheDir string) error {
	// Without a page map resets are slower; nothing else changes.
	m.pagemap, _ = cow.OpenPagemap()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(uint32(m.engine.MaxMemory / cow.PageSize)).WithDebugInfoEnabled(false)
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err != nil {
			return fmt.Errorf("open the cache of compiled code: %w", err)
		}
		m.cache, config = cache, config.WithCompilationCache(cache)
	}
	module, err := metered(m.engine.Module, cacheDir)
	if err != nil {
		return err
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	_, err = m.runtime.NewHostModuleBuilder(wasmfuel.ImportModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(m.tick), nil, nil).Export(wasmfuel.ImportName).Instantiate(ctx)
	if err != nil {
		return fmt.Errorf("offer the meter: %w", err)
	}
	if err := m.engine.Offer(ctx, m.runtime); err != nil {
		return err
	}
	if m.module, err = m.runtime.CompileModule(ctx, module); err != nil {
		return fmt.Errorf("compile it: %w", err)
	}
	return nil
}

// tick is called when fuel is used up.
func (m *Machine[I]) tick(ctx context.Context, _ api.Module, _ []uint64) {
	i := Of[I](ctx)
	i.instance().Refuel()
	m.engine.Tick(i)
}

// Boot starts the engine in a first isolate, by start, which gives what names
// the engine and what it has found out of it. What is then in the memory is the
// image.
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
	m.Begin(image, first.instance().StackPointer(), about)
	return nil
}

// Begin makes an image that another machine has booted, and its stack pointer,
// those of this one, which closes the image. About is what start has said in
// [Machine.Boot].
func (m *Machine[I]) Begin(image *cow.Image, stackPointer uint64, about string) {
	m.image, m.stack = image, stackPointer
	m.name = sync.OnceValue(func() string {
		h := sha256.New()
		fmt.Fprintf(h, "%s %d\n", about, stackPointer)
		h.Write(image.Bytes())
		return hex.EncodeToString(h.Sum(nil))
	})
}

// Image is what isolates begin from.
func (m *Machine[I]) Image() *cow.Image { return m.image }

// ImageName names the image. Machines with the same one can load one another's
// states: the engine starts the same way everywhere.
func (m *Machine[I]) ImageName() string { return m.name() }

// instantiate makes an isolate whose memory is as the module says, not yet as
// the image does.
func (m *Machine[I]) instantiate(ctx context.Context) (none I, err error) {
	pages, err := cow.NewMemory(m.engine.MaxMemory, m.pagemap)
	if err != nil {
		return none, err
	}
	i := &Instance{memory: &memory{pages, m.engine.MaxMemory}, packer: m.packer}
	ctx = experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory {
		return i.memory
	}))
	i.Module, err = m.runtime.InstantiateModule(ctx, m.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		pages.Free()
		return none, fmt.Errorf("instantiate it: %w", err)
	}
	isolate, err := none, i.find()
	if err == nil {
		isolate, err = m.engine.Open(i)
	}
	if err != nil {
		i.close()
		return none, err
	}
	return isolate, nil
}

// Isolate gives an isolate in which nothing has run. Give it back with
// [Machine.Release].
func (m *Machine[I]) Isolate(ctx context.Context) (none I, err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return none, errors.New("this machine is closed")
	}
	if n := len(m.idle); n > 0 {
		i := m.idle[n-1]
		m.idle = m.idle[:n-1]
		m.mu.Unlock()
		return i, nil
	}
	m.mu.Unlock()
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

// Release takes an isolate back. It is put to the state in which it was given,
// or dropped where that cannot be done exactly.
func (m *Machine[I]) Release(i I) {
	instance := i.instance()
	if !instance.reset(m.stack, m.engine.MaxMemory) || !m.keep(i) {
		instance.close()
	}
}

// keep takes an isolate back that is as good as new.
func (m *Machine[I]) keep(i I) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.idle) >= m.limit {
		return false
	}
	m.idle = append(m.idle, i)
	return true
}

// Warm makes one isolate ready, so that the first run need not wait for it.
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
	m.mu.Lock()
	idle := m.idle
	m.idle, m.closed = nil, true
	m.mu.Unlock()
	for _, i := range idle {
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

// Package quickjs runs JavaScript in QuickJS-NG, compiled to WebAssembly, on
// wazero. A [Machine] starts the engine once, loads a prelude and keeps an
// image; each [Isolate] is a private copy of that image, and is put back to it
// after each run, so that no run sees what another did.
//
// JavaScript and Go meet at few places, none of which takes an object of the
// guest: frames as bytes that the prelude made, and strings. Nothing of the
// guest runs while Go serves it, so a Proxy or a getter cannot re-enter.
package quickjs

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/toolroom/toolroom/internal/engine/cow"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

// The limits of every isolate, in bytes.
const (
	// MaxMemory is the largest memory limit that a run may ask for.
	MaxMemory = 1 << 30
	// stackSize is what QuickJS may use of the 1 MiB stack that the module was
	// linked with: what is over it is a RangeError and not a trap.
	stackSize = 256 << 10
	// slack is free memory that the image holds, so that a usual run does not
	// grow past it, for a memory that grew cannot be put back.
	slack = 4 << 20
	// headroom is what the engine needs beside the values of the guest.
	headroom = 32 << 20
)

// Options say how a machine is built.
type Options struct {
	// Prelude is JavaScript that every run finds already executed. It is
	// described at [Isolate.Run].
	Prelude string
	// CacheDir keeps compiled code between processes, which takes most of the
	// start away. What lies there is executed: it must be private. Empty means
	// no cache.
	CacheDir string
	// Idle is how many isolates are kept ready, 1 if zero.
	Idle int
}

// Machine makes isolates. Its methods may be called concurrently.
type Machine struct {
	runtime wazero.Runtime
	cache   wazero.CompilationCache
	module  wazero.CompiledModule
	pagemap *cow.Pagemap
	image   *cow.Image
	// What lies where in every copy of the image.
	layout layout
	name   func() string // of the image
	packer *cow.Packer
	limit  int

	mu     sync.Mutex
	idle   []*Isolate
	closed bool
}

// New starts the engine and takes its image. ctx bounds the start.
func New(ctx context.Context, o Options) (*Machine, error) {
	if err := checkBlob(); err != nil {
		return nil, err
	}
	m := &Machine{limit: max(o.Idle, 1), packer: cow.NewPacker()}
	m.name = sync.OnceValue(m.nameImage)
	if err := m.start(ctx, o); err != nil {
		_ = m.Close() // the first error counts
		return nil, fmt.Errorf("start QuickJS: %w", err)
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, o Options) error {
	// Without a page map resets are slower; nothing else changes.
	m.pagemap, _ = cow.OpenPagemap()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages((MaxMemory + headroom) / cow.PageSize).WithDebugInfoEnabled(false)
	if o.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(o.CacheDir)
		if err != nil {
			return fmt.Errorf("open the cache of compiled code: %w", err)
		}
		m.cache, config = cache, config.WithCompilationCache(cache)
	}
	metered, err := wasmfuel.Rewrite(blob)
	if err != nil {
		return err
	}
	m.runtime = wazero.NewRuntimeWithConfig(ctx, config)
	if err := instantiateHost(ctx, m.runtime); err != nil {
		return err
	}
	if m.module, err = m.runtime.CompileModule(ctx, metered); err != nil {
		return fmt.Errorf("compile it: %w", err)
	}
	first, err := m.instantiate(ctx)
	if err != nil {
		return err
	}
	defer first.close()
	if m.layout, err = first.boot(ctx, o.Prelude); err != nil {
		return err
	}
	m.image, err = first.memory.Freeze()
	return err
}

// instantiate makes an isolate whose memory is as the module says, not yet as
// the image does.
func (m *Machine) instantiate(ctx context.Context) (*Isolate, error) {
	memory, err := cow.NewMemory(MaxMemory+headroom, m.pagemap)
	if err != nil {
		return nil, err
	}
	i := &Isolate{machine: m, memory: memory}
	ctx = experimental.WithMemoryAllocator(i.context(ctx), experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory {
		return memory
	}))
	i.module, err = m.runtime.InstantiateModule(ctx, m.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memory.Free()
		return nil, fmt.Errorf("instantiate it: %w", err)
	}
	i.find()
	return i, nil
}

// Isolate gives an isolate in which nothing has run. Give it back with
// [Isolate.Release].
func (m *Machine) Isolate(ctx context.Context) (*Isolate, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, errors.New("this JavaScript machine is closed")
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
		return nil, err
	}
	if err := i.adopt(m.image); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// keep takes an isolate back that is as good as new.
func (m *Machine) keep(i *Isolate) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || len(m.idle) >= m.limit {
		return false
	}
	m.idle = append(m.idle, i)
	return true
}

// Close ends the machine. Isolates in use must have been released.
func (m *Machine) Close() error {
	m.mu.Lock()
	idle := m.idle
	m.idle, m.closed = nil, true
	m.mu.Unlock()
	for _, i := range idle {
		i.close()
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

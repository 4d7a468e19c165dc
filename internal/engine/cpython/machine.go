// Package cpython runs Python in CPython, compiled to WebAssembly, on wazero. A
// [Machine] starts the interpreter once, lets it import what programs use most,
// and keeps an image of its memory; each [Isolate] is a private copy of that
// image, and is put back to it after each run, so that no run sees what another
// did.
//
// The module that there is of CPython is a command: it has a main and nothing
// else to be called. The guest (boot.py) stops within it, in the middle of a
// system call, and that is where the image is taken. A run begins by calling a
// Python function of the image through the table of the module, on top of the
// stack as it was then. Nothing ever returns into main.
package cpython

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/toolroom/toolroom/internal/engine/cow"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

// The limits of every isolate, in bytes of linear memory. The interpreter's own
// is among them.
const (
	// MinMemory is the smallest memory limit that a run may ask for.
	MinMemory = 64 << 20
	// MaxMemory is the largest.
	MaxMemory = 1 << 30
)

// Options say how a machine is built.
type Options struct {
	// Guest are the modules of the guest: file names and texts, of which
	// guest.py runs a program. See [Isolate.Run].
	Guest map[string]string
	// CacheDir keeps compiled code and the image between processes, which
	// takes most of the start away. What lies there is executed: it must be
	// private. Empty means no cache.
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
	layout  layout
	name    func() string // of the image
	packer  *cow.Packer
	limit   int

	mu     sync.Mutex
	idle   []*Isolate
	closed bool
}

// layout tells what a machine has to know of its image.
type layout struct {
	StackPointer uint32
	Function     uint32 // address of the Python function that runs a program
	Call         uint32 // index in the table of the function that calls it
}

// New starts the interpreter and takes its image, or opens the one in the
// cache. ctx bounds the start.
func New(ctx context.Context, o Options) (*Machine, error) {
	m := &Machine{limit: max(o.Idle, 1), packer: cow.NewPacker()}
	m.name = sync.OnceValue(m.nameImage)
	if err := m.start(ctx, o); err != nil {
		_ = m.Close() // the first error counts
		return nil, fmt.Errorf("start CPython: %w", err)
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, o Options) error {
	// Without a page map resets are slower; nothing else changes.
	m.pagemap, _ = cow.OpenPagemap()
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(MaxMemory / cow.PageSize).WithDebugInfoEnabled(false)
	if o.CacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(o.CacheDir)
		if err != nil {
			return fmt.Errorf("open the cache of compiled code: %w", err)
		}
		m.cache, config = cache, config.WithCompilationCache(cache)
	}
	module, err := unpackBlob()
	if err != nil {
		return err
	}
	metered, err := wasmfuel.Rewrite(module)
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
	return m.open(ctx, o)
}

// open takes the image from the cache, or makes it and puts it there.
func (m *Machine) open(ctx context.Context, o Options) error {
	path := ""
	if o.CacheDir != "" {
		path = filepath.Join(o.CacheDir, "cpython-"+imageKey(o.Guest)+".image")
		image, note, err := cow.OpenImage(path)
		if err == nil && len(note) == binary.Size(m.layout) {
			m.image = image
			_, err = binary.Decode(note, binary.LittleEndian, &m.layout)
			return err
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	first, err := m.instantiate(ctx)
	if err != nil {
		return err
	}
	defer first.close()
	if m.layout, err = first.boot(ctx, o.Guest); err != nil {
		return err
	}
	if m.image, err = first.memory.Freeze(); err != nil || path == "" {
		return err
	}
	note, err := binary.Append(nil, binary.LittleEndian, m.layout)
	if err != nil {
		return err
	}
	switch err := m.image.Save(path, note); {
	case err == nil:
		forgetOthers(path)
	case !errors.Is(err, os.ErrPermission): // a folder that is only read has the code, and no image
		return err
	}
	return nil
}

// imageKey names all that an image is made of.
func imageKey(guest map[string]string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n", blobSum, bootScript)
	for _, name := range slices.Sorted(maps.Keys(guest)) {
		fmt.Fprintf(h, "%q %q\n", name, guest[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// Image names the image that isolates begin from. Machines with the same name
// can load one another's states: the engine starts the same way everywhere.
func (m *Machine) Image() string { return m.name() }

func (m *Machine) nameImage() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %+v\n", Version, m.layout)
	h.Write(m.image.Bytes())
	return hex.EncodeToString(h.Sum(nil))
}

// instantiate makes an isolate whose memory is as the module says, not yet as
// the image does.
func (m *Machine) instantiate(ctx context.Context) (*Isolate, error) {
	memory, err := cow.NewMemory(MaxMemory, m.pagemap)
	if err != nil {
		return nil, err
	}
	i := &Isolate{machine: m, memory: memory, limit: MaxMemory}
	ctx = experimental.WithMemoryAllocator(i.context(ctx), experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory {
		return limited{memory, i}
	}))
	i.module, err = m.runtime.InstantiateModule(ctx, m.module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		memory.Free()
		return nil, fmt.Errorf("instantiate it: %w", err)
	}
	if err := i.find(); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

// Isolate gives an isolate in which nothing has run. Give it back with
// [Isolate.Release].
func (m *Machine) Isolate(ctx context.Context) (*Isolate, error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, errors.New("this Python machine is closed")
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

// Warm makes one isolate ready, so that the first run need not wait for it.
func (m *Machine) Warm(ctx context.Context) error {
	i, err := m.Isolate(ctx)
	if err != nil {
		return err
	}
	i.Release()
	return nil
}

// Package py is the engine for Python that does not need the machine's Python:
// CPython as WebAssembly, in worker processes that run this same binary.
//
// A [Machine] starts the interpreter once and imports what programs use most; each
// [Isolate] begins from a copy of that memory. The only existing build of CPython as a
// module is a command: it has main and no other function to call. The guest (boot.py)
// stops inside main, in the middle of a system call, and the image is taken there. A run
// calls a Python function of the image through the table of the module, on top of the
// stack as it was then. Nothing ever returns into main.
package py

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/worker"
	files "github.com/toolroom/toolroom/internal/guest"
)

// Name is the engine's id.
const Name = "py"

// Options configures the engine.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments
	// that lead it to [Worker], such as [WorkerArg].
	Command []string
	// Init is the command that begins the sandbox of a worker; if it is empty,
	// Command is used. A small binary starts sooner.
	Init []string
	// CacheDir keeps compiled code and the image of the interpreter between starts,
	// which then take a fraction of a second instead of many seconds. It must be
	// private to the user of this process, because its files are executed. Empty
	// means none.
	CacheDir string
}

// New returns the engine. Nothing is started before the first run or probe.
func New(o Options) *worker.Engine {
	return worker.NewEngine(worker.Kind{
		Name: Name, Languages: []string{"python"}, Version: Version,
		Wall: "fuel, then kill", CPU: worker.CPUClock(), Memory: "WebAssembly memory, the interpreter's included",
		MinMemory: MinMemory, MaxMemory: MaxMemory, Needs: "250 MiB of memory",
		Prepare: func(*bridge.Program) (func(*bridge.Failure), *bridge.Failure) { return classify, nil },
	}, worker.NewSelf("wasm", o.Command, o.Init, o.CacheDir).Start)
}

// classify adds engine-specific details to a failure.
func classify(f *bridge.Failure) {
	switch {
	case f.Type == "ModuleNotFoundError":
		// Another Python may have the module: the machine's, or one with wheels.
		f.Kind = bridge.FailUnsupported
	case f.Type == "SystemError" && strings.Contains(f.Message, "without exception set"):
		// CPython 3.12 does not always report that it ran out of memory.
		f.Kind, f.Limit = bridge.FailLimit, "memory"
	}
}

// WorkerArg is the first argument of a binary that is executed as a worker. Its
// main must pass the arguments after it to [Worker].
const WorkerArg = "__python-worker"

// Worker is the main function of a worker process. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	return worker.Main(ctx, arguments, worker.ServiceConfig{Service: func(ctx context.Context, cacheDir string) (worker.Service, error) {
		m, err := NewMachine(ctx, files.PythonFiles(), cacheDir)
		if err == nil {
			err = m.Warm(ctx)
		}
		return serviceMachine{m}, err
	}})
}

// serviceMachine is the [worker.Service] of a machine: its interpreters run the programs that the
// server sends.
type serviceMachine struct{ *Machine }

// imagePath returns the path in a cache of the image with a guest, which depends on
// everything that the image is made of. Without a cache it returns "".
func imagePath(cacheDir string, guest map[string]string) string {
	if cacheDir == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%q\n", blobSum, bootScript)
	for _, name := range slices.Sorted(maps.Keys(guest)) {
		fmt.Fprintf(h, "%q %q\n", name, guest[name])
	}
	return filepath.Join(cacheDir, "cpython-"+hex.EncodeToString(h.Sum(nil)[:12])+".image")
}

// keepImage is how long the image of another build is kept: two builds may share a
// home. An image that is removed too soon is made again.
const keepImage = 7 * 24 * time.Hour

// removeOtherImages removes old images of other builds from the folder of a new image. It ignores
// errors: images that stay only use disk space.
func removeOtherImages(image string) {
	others, _ := filepath.Glob(filepath.Join(filepath.Dir(image), "cpython-*.image")) // the pattern is right
	for _, other := range others {
		if about, err := os.Stat(other); err == nil && other != image && time.Since(about.ModTime()) > keepImage {
			_ = os.Remove(other)
		}
	}
}

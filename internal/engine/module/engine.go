package module

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/worker"
)

// Name is the engine's id, and the language of its programs.
const Name = "wasm"

const (
	// maxProcess bounds a whole worker: a module's memory and the compiler's.
	maxProcess = MaxMemory + 1<<30
)

// Options configures the engine.
type Options struct {
	// Command starts a worker: the absolute path of a binary, with arguments
	// that lead it to [Worker], such as [WorkerArg].
	Command []string
	// Init is the command that begins the sandbox of a worker; if it is empty,
	// Command is used. A small binary starts sooner.
	Init []string
	// CompileTime bounds the compilation of a module, one minute if zero.
	CompileTime time.Duration
	// Workers is how many programs run at once, [worker.DefaultSize] if zero.
	// Further programs wait.
	Workers int
}

// New returns the engine. Nothing is started before the first run or probe.
func New(o Options) *worker.Engine {
	self := worker.NewSelf("wasm", o.Command, o.Init, "")
	self.Memory = maxProcess
	return worker.NewEngine(worker.Kind{
		Name: Name, Languages: []string{Name}, Version: "WASI preview 1", Stateless: true, Compile: LanguageCompile, CompileTime: cmp.Or(o.CompileTime, time.Minute),
		Wall: "fuel, then kill", CPU: worker.CPUClock(), Memory: "WebAssembly memory", MaxMemory: MaxMemory, Needs: "32 MiB of memory", Workers: o.Workers,
		Prepare: func(p *bridge.Program) (func(*bridge.Failure), *bridge.Failure) {
			return func(*bridge.Failure) {}, Check(p.Module)
		},
	}, self.Start)
}

// WorkerArg is the first argument of a binary that is executed as a worker. Its
// main must pass the arguments after it to [Worker].
const WorkerArg = "__module-worker"

// Worker is the main function of a worker process. It returns the exit code.
func Worker(ctx context.Context, arguments []string) int {
	return worker.Main(ctx, arguments, worker.ServiceConfig{Compiles: true, Service: func(ctx context.Context, _ string) (worker.Service, error) {
		m, err := NewMachine(ctx)
		return service{m}, err
	}})
}

// service is a machine that runs the modules that the server sends.
type service struct{ *Machine }

func (s service) Serve(ctx context.Context, stream io.ReadWriter) error {
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: Name}}
	if err := bridge.NewWire(stream).Write(bridge.Frame{Kind: bridge.Hello, Body: hello}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	return s.Machine.Serve(ctx, stream)
}

// gzipped is the beginning of a packed module (RFC 1952, 2.3.1).
var gzipped = []byte{0x1f, 0x8b}

// unpack returns a module, decompressed if it is packed with gzip.
func unpack(data []byte) ([]byte, error) {
	if bytes.HasPrefix(data, gzipped) {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack it: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(r, MaxModule+1)); err != nil {
			return nil, fmt.Errorf("unpack it: %w", err)
		}
	}
	if len(data) > MaxModule {
		return nil, fmt.Errorf("it has more than %d MiB, the largest module", MaxModule>>20)
	}
	return data, nil
}

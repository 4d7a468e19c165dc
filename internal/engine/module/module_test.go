package module_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/module"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == module.WorkerArg {
		os.Exit(module.Worker(context.Background(), os.Args[2:]))
	}
	code := m.Run()
	if shared != nil {
		_ = shared.Close() // the tests are over
	}
	os.Exit(code)
}

func open(t *testing.T, workers int) engine.Engine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return module.New(module.Options{Command: []string{self, module.WorkerArg}, Workers: workers, CompileTime: 10 * time.Minute})
}

// shared is one engine with one worker for the tests that do not need their own, so
// that a module is compiled once.
var (
	shared engine.Engine
	once   sync.Once
)

func opened(t *testing.T) engine.Engine {
	t.Helper()
	once.Do(func() { shared = open(t, 1) })
	return shared
}

var build = sync.OnceValues(enginetest.BuildModule)

// suite returns the engine's options for the suites.
func suite(t *testing.T) enginetest.Options {
	t.Helper()
	if raced {
		t.Skip("the workers are other processes; the host's side is tried with small modules")
	}
	programs, err := build()
	if err != nil {
		t.Fatal(err)
	}
	// Each worker compiles the programs, which takes 2.5 seconds of processor time.
	const workers = 2
	return enginetest.Options{New: func(t *testing.T) engine.Engine { return open(t, workers) }, Bare: true, Stream: 3, Module: programs}
}

func TestTheEngineFulfilsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, suite(t))
}

func TestBadCodeEndsAsExpectedAndHarmsNoOtherRun(t *testing.T) {
	t.Parallel()
	enginetest.Bad(t, suite(t))
}

func TestNothingLeaksFromOneRunToTheNext(t *testing.T) {
	t.Parallel()
	o := suite(t)
	o.Runs = 300 // each starts a Go runtime of its own
	enginetest.Leak(t, o)
}

func TestATokenIsUselessAfterItsRun(t *testing.T) {
	t.Parallel()
	enginetest.Tokens(t, suite(t))
}

package monty_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

// What a program makes this process keep does not count as the program's memory.
func TestAProgramCannotUseUpTheMemoryOfThisProcess(t *testing.T) {
	t.Parallel()
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	limits := bridge.Limits{Wall: 60_000, Memory: 1 << 30}
	t.Run("sleeping tasks", func(t *testing.T) {
		const source = "import asyncio\nasync def main():\n    await asyncio.gather(*[asyncio.sleep(30) for _ in range(6000)])\n    return 1\nawait main()"
		before := runtime.NumGoroutine()
		result, err := e.Run(t.Context(), job(source, limits), silent{})
		if f := result.Outcome.Failure; err != nil || f == nil || f.Type != "RuntimeError" || !strings.Contains(f.Message, "4096 tasks") {
			t.Errorf("ended with %+v, %v, and %d goroutines more", f, err, runtime.NumGoroutine()-before)
		}
	})
	t.Run("some sleeping tasks", func(t *testing.T) {
		const source = "import asyncio\nasync def main():\n    for _ in range(3):\n        await asyncio.gather(*[asyncio.sleep(0.01) for _ in range(2000)])\n    return 1\nawait main()"
		result, err := e.Run(t.Context(), job(source, limits), silent{})
		if err != nil || result.Outcome.Failure != nil || result.Outcome.Value != bridge.Value(int64(1)) {
			t.Errorf("%+v, %v", result, err)
		}
	})
	t.Run("names", func(t *testing.T) {
		_, err := e.Run(t.Context(), job("for i in range(1000000):\n    getattr(tools, 'x' + str(i))", limits), silent{})
		if failed := toolroom.AsError(err); err == nil || failed.Limit != "memory" {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("values", func(t *testing.T) {
		for _, source := range []string{"[1000] * 3000000", "tools.number.same(n=[1000] * 3000000)"} {
			result, err := e.Run(t.Context(), job(source, limits), silent{})
			if err != nil || result.Outcome.Failure == nil || !strings.Contains(result.Outcome.Failure.Message, "more than 2097152 pieces") {
				t.Errorf("%s ended with %+v, %v", source, result.Outcome.Failure, err)
			}
		}
	})
	t.Run("calls that repeat a value", func(t *testing.T) {
		_, err := e.Run(t.Context(), job("x = ['x' * 1000000] * 30\nfor i in range(10):\n    tools.number.same(n=x)", limits), silent{})
		if failed := toolroom.AsError(err); err == nil || failed.Limit != "bytes" {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("names that are long", func(t *testing.T) {
		for _, source := range []string{
			"for i in range(200):\n    getattr(tools, 'x' * 4000000 + str(i))",
			"for i in range(200):\n    getattr(tools.number, 'x' * 4000000 + str(i))",
		} {
			result, err := e.Run(t.Context(), job(source, limits), silent{})
			if err != nil || result.Outcome.Failure == nil || result.Outcome.Failure.Type != "AttributeError" {
				t.Errorf("%s ended with %+v, %v", source, result.Outcome.Failure, err)
			}
		}
	})
	t.Run("tools that nothing lists", func(t *testing.T) {
		_, err := e.Run(t.Context(), job("for i in range(1000000):\n    getattr(tools.number, 'x' + str(i))", limits), silent{})
		if failed := toolroom.AsError(err); err == nil || failed.Limit != "memory" {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("log lines", func(t *testing.T) {
		limits := limits
		limits.Bytes = 10 << 20
		_, err := e.Run(t.Context(), job("x = 'y' * 1000000\nfor i in range(20):\n    log(x)\n    progress(1, 2, x)", limits), talking{})
		if failed := toolroom.AsError(err); err == nil || failed.Limit != "bytes" {
			t.Errorf("ended with %v", err)
		}
	})
}

// A value that a program holds in many places crosses to this process once, and may take as many
// times the memory here.
func TestAProgramCannotMultiplyAValueInThisProcess(t *testing.T) { // not parallel: it measures memory
	e := open(t)
	t.Cleanup(func() { _ = e.Close() })
	limits := bridge.Limits{Wall: 60_000, Memory: 1 << 30}
	for _, source := range []string{
		"['x' * 1000000] * 3000", "tools.number.same(n=['x' * 1000000] * 3000)",
		"log(['x' * 1000000] * 3000)", "d = {'x' * 1000000: 1}\ntools.number.same(n=[d] * 3000)",
		"tools.number.same(n={('x' * 1000000,) * 3000: 1})", "tools.number.same(n={1 << 80000000: 1})", "search_tools(1 << 80000000)",
		"tools.number.same(n=['x'] * 8000000)", "toolroom_error_details(['x' * 1000000] * 3000).code",
		"a = [1]\nfor i in range(40):\n    a = [a, a]\ntoolroom_error_details(a).code",
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		result, err := e.Run(t.Context(), job(source, limits), silent{})
		runtime.ReadMemStats(&after)
		if err == nil && result.Outcome.Failure == nil {
			t.Errorf("%s ended with %.100v", source, result.Outcome.Value)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 512<<20 {
			t.Errorf("%s made this process allocate %d MB", source, used>>20)
		}
	}
}

// talking hears what a program logs.
type talking struct{ silent }

func (talking) Log(string, string, bridge.Map)    {}
func (talking) Progress(float64, float64, string) {}

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
	t.Run("log lines", func(t *testing.T) {
		limits := limits
		limits.Bytes = 10 << 20
		_, err := e.Run(t.Context(), job("x = 'y' * 1000000\nfor i in range(20):\n    log(x)\n    progress(1, 2, x)", limits), talking{})
		if failed := toolroom.AsError(err); err == nil || failed.Limit != "bytes" {
			t.Errorf("ended with %v", err)
		}
	})
}

// talking hears what a program logs.
type talking struct{ silent }

func (talking) Log(string, string, bridge.Map)    {}
func (talking) Progress(float64, float64, string) {}

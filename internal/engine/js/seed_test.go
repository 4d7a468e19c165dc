package js_test

import (
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

func TestRunsWithOneSeedDrawTheSameRandomNumbers(t *testing.T) {
	t.Parallel()
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	draw := func(seed string) bridge.Value {
		p := bridge.Program{Language: "javascript", Source: "return [Math.random(), crypto.randomUUID()].join()", Seed: []byte(seed)}
		r, err := e.Run(t.Context(), engine.Job{Owner: "ann", Program: p}, nil)
		if err != nil || r.Outcome.Failure != nil {
			t.Fatal(err, r)
		}
		return r.Outcome.Value
	}
	if a, b := draw("one"), draw("one"); a != b {
		t.Errorf("%v, then %v", a, b)
	}
	if a, b := draw("one"), draw("two"); a == b {
		t.Errorf("two seeds draw %v", a)
	}
	if a, b := draw(""), draw(""); a == b {
		t.Errorf("without a seed two runs draw %v", a)
	}
}

func TestOneCallReturnsAsManyRandomBytesAsWebCryptoAllows(t *testing.T) {
	t.Parallel()
	e := inWorkers(t)
	t.Cleanup(func() { _ = e.Close() })
	p := bridge.Program{Language: "javascript", Source: `const of = n => crypto.getRandomValues(new Uint8Array(n)).slice(-64).some(b => b);
try { of(65537) } catch (e) { return [e.message, of(65536)].join() }`}
	r, err := e.Run(t.Context(), engine.Job{Owner: "ann", Program: p}, nil)
	if err != nil || r.Outcome.Value != "at most 65536 bytes of random values at once,true" {
		t.Errorf("%+v, %v", r, err)
	}
}

package bridge_test

import (
	"context"
	"errors"
	"io"
	"math"
	"math/big"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
)

func TestValuesKeepTheirTypeAndOrderAcrossTheBridge(t *testing.T) {
	t.Parallel()
	huge, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	values := []bridge.Value{
		nil, true, false, int64(0), int64(23), int64(24), int64(-1), int64(-256), int64(math.MaxInt64), int64(math.MinInt64),
		huge, new(big.Int).Neg(huge), new(big.Int).SetUint64(math.MaxUint64), 0.5, math.Copysign(0, -1), math.Inf(1), "", "grüße \u0000 🦜",
		[]byte{},
		[]byte{0, 255},
		time.Date(2026, 11, 21, 7, 0, 0, 5, time.FixedZone("", 3600)),
		bridge.Handle{ID: "artifact:a", MediaType: "text/csv", Size: 12},
		[]bridge.Value{},
		[]bridge.Value{int64(1), []bridge.Value{nil}},
		bridge.Map{},
		bridge.Map{{"z", int64(1)}, {"a", bridge.Map{{"b", "c"}}}},
	}
	bigs := cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })
	for _, v := range values {
		b, err := bridge.AppendValue(nil, v)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		got, err := bridge.DecodeValue(b)
		if err != nil {
			t.Fatalf("%v: %v", v, err)
		}
		if diff := cmp.Diff(v, got, bigs); diff != "" {
			t.Errorf("%v came back as another value (-sent +got):\n%s", v, diff)
		}
	}
}

func TestJSONKeepsIntegersAndOrderAndNamesThePartItCannotHold(t *testing.T) {
	t.Parallel()
	const text = `{"z":9007199254740993,"a":123456789012345678901234567890,"f":3.0,"e":1e-7,"list":[null,true,"x\ny"],"o":{}}`
	v, err := bridge.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	back, err := bridge.ToJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"z":9007199254740993,"a":123456789012345678901234567890,"f":3.0,"e":1e-07,"list":[null,true,"x\ny"],"o":{}}`, string(back)); diff != "" {
		t.Error(diff)
	}
	_, err = bridge.ToJSON(bridge.Map{{"rows", []bridge.Value{1.5, math.NaN()}}})
	if err == nil || !strings.Contains(err.Error(), "value.rows[1] is NaN") {
		t.Errorf("NaN in a list: %v", err)
	}
	for _, bad := range []string{``, `{`, `[1,]`, `{"a":1,"a":2}`, `1 2`, `nul`} {
		if v, err := bridge.FromJSON([]byte(bad)); err == nil {
			t.Errorf("%q was read as %v", bad, v)
		}
	}
}

// A guest may send one long key with millions of small parts below it. It must not cost the
// server a path with the key for each of them.
func TestLongKeysDoNotMultiplyTheWorkOfJSON(t *testing.T) { // not parallel: it measures memory
	value := bridge.Map{{strings.Repeat("k", 1<<20), make([]bridge.Value, 2000)}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := bridge.ToJSON(value)
	runtime.ReadMemStats(&after)
	if err != nil || len(text) < 1<<20 {
		t.Fatal(len(text), err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
		t.Errorf("%d MB were allocated for %d MB of JSON", used>>20, len(text)>>20)
	}
}

func TestHostileBytesAreRefusedWithoutAllocatingWhatTheyAnnounce(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"list of 2^60":           {0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0},
		"text of 2^62":           {0x7b, 0x40, 0, 0, 0, 0, 0, 0, 0, 'x'},
		"deep nesting":           []byte(strings.Repeat("\x81", 10_000) + "\x00"),
		"deep tags":              []byte(strings.Repeat("\xc2", 10_000) + "\x00"),
		"indefinite length":      {0x9f, 0xff},
		"key twice":              {0xa2, 0x61, 'a', 1, 0x61, 'a', 2},
		"key that is not text":   {0xa1, 1, 1},
		"text that is not UTF-8": {0x61, 0xff},
		"unknown tag":            {0xd8, 0x63, 0x01},
		"nothing":                {},
		"two values":             {1, 2},
	} {
		if v, err := bridge.DecodeValue(data); err == nil {
			t.Errorf("%s was read as %v", name, v)
		}
	}
}

func FuzzDecodeValueNeverPanicsAndReencodes(f *testing.F) {
	for _, v := range []bridge.Value{int64(5), "x", bridge.Map{{"a", []bridge.Value{1.5, nil}}}} {
		b, _ := bridge.AppendValue(nil, v)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := bridge.DecodeValue(data)
		if err != nil {
			return
		}
		if _, err := bridge.AppendValue(nil, v); err != nil {
			t.Fatalf("%v was read but cannot be written: %v", v, err)
		}
	})
}

// pair returns both ends of a stream; the guest's end is raw, as a hostile guest would use it.
func pair(t *testing.T) (host io.ReadWriteCloser, guest net.Conn) {
	t.Helper()
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func TestAGuestIsRefused(t *testing.T) {
	t.Parallel()
	for name, hello := range map[string]bridge.Frame{
		"wrong token":      {Kind: bridge.Hello, Token: []byte("guess"), Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}},
		"no token":         {Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}},
		"newer version":    {Kind: bridge.Hello, Token: []byte("secret"), Body: bridge.Map{{"versions", []bridge.Value{int64(99)}}}},
		"no hello":         {Kind: bridge.Done, Token: []byte("secret")},
		"negative version": {Kind: bridge.Hello, Token: []byte("secret"), Body: bridge.Map{{"versions", []bridge.Value{int64(-1)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host, guest := pair(t)
			told := make(chan bridge.Frame, 1)
			go func() {
				w := bridge.NewWire(guest)
				_ = w.Write(hello)
				f, _, _ := w.Read()
				told <- f
			}()
			if _, err := bridge.Accept(t.Context(), host, bridge.Options{Token: []byte("secret")}); !errors.Is(err, bridge.ErrProtocol) {
				t.Errorf("the guest was accepted: %v", err)
			}
			if f := <-told; f.Kind != bridge.Refuse {
				t.Errorf("the guest received %v", f)
			}
		})
	}
}

// bothWays runs a test with and without Options.Direct.
func bothWays(t *testing.T, test func(*testing.T, bridge.Options)) {
	t.Helper()
	for name, direct := range map[string]bool{"a goroutine reads": false, "the caller of Run reads": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bridge.Options{Direct: direct, Grace: time.Millisecond})
		})
	}
}

// hostile runs a program on a guest that behaves as script does, and returns how
// the run ended.
func hostile(t *testing.T, o bridge.Options, limits bridge.Limits, script func(w *bridge.Wire, start bridge.Frame, raw net.Conn)) (*bridge.Outcome, error) {
	t.Helper()
	host, guest := pair(t)
	go func() {
		w := bridge.NewWire(guest)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}})
		start, _, err := w.Read()
		if err != nil {
			return
		}
		go func() { // the server's answers must not block the guest
			for {
				if _, _, err := w.Read(); err != nil {
					return
				}
			}
		}()
		script(w, start, guest)
	}()
	conn, err := bridge.Accept(t.Context(), host, o)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.Run(t.Context(), bridge.Program{Language: "test", Limits: limits}, quiet{})
}

func TestABreachOfTheProtocolEndsTheRun(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(w *bridge.Wire, start bridge.Frame, raw net.Conn){
		"forged token": func(w *bridge.Wire, _ bridge.Frame, _ net.Conn) {
			_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: make([]byte, 16)})
		},
		"server's own kind": func(w *bridge.Wire, s bridge.Frame, _ net.Conn) {
			_ = w.Write(bridge.Frame{Kind: bridge.Result, Token: s.Token})
		},
		"unknown kind":   func(w *bridge.Wire, s bridge.Frame, _ net.Conn) { _ = w.Write(bridge.Frame{Kind: 200, Token: s.Token}) },
		"garbage":        func(_ *bridge.Wire, _ bridge.Frame, raw net.Conn) { _, _ = raw.Write([]byte("\x00\x00\x00\x04GET /")) },
		"frame of 4 GiB": func(_ *bridge.Wire, _ bridge.Frame, raw net.Conn) { _, _ = raw.Write([]byte{255, 255, 255, 255}) },
		"half a frame": func(_ *bridge.Wire, _ bridge.Frame, raw net.Conn) {
			_, _ = raw.Write([]byte{0, 0, 0, 9, 1})
			raw.Close()
		},
		"closed stream": func(_ *bridge.Wire, _ bridge.Frame, raw net.Conn) { raw.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, o bridge.Options) {
				out, err := hostile(t, o, bridge.Limits{}, script)
				if err == nil || !errors.Is(err, bridge.ErrProtocol) && !errors.Is(err, bridge.ErrGone) {
					t.Errorf("the run ended with %v, %v", out, err)
				}
			})
		})
	}
}

func TestTheServerEnforcesTheLimitsOfAHostileGuest(t *testing.T) {
	t.Parallel()
	flood := func(kind bridge.Kind, body bridge.Map) func(*bridge.Wire, bridge.Frame, net.Conn) {
		return func(w *bridge.Wire, s bridge.Frame, _ net.Conn) {
			for id := uint64(1); ; id++ {
				if w.Write(bridge.Frame{Kind: kind, ID: id, Token: s.Token, Body: body}) != nil {
					return
				}
			}
		}
	}
	for name, c := range map[string]struct {
		limits bridge.Limits
		script func(*bridge.Wire, bridge.Frame, net.Conn)
		limit  string
	}{
		"output": {bridge.Limits{Output: 1000}, flood(bridge.Print, bridge.Map{{"text", strings.Repeat("x", 100)}}), "output"},
		"bytes":  {bridge.Limits{Bytes: 100_000}, flood(bridge.Log, bridge.Map{{"message", strings.Repeat("x", 1000)}}), "bytes"},
		"calls":  {bridge.Limits{Calls: 5}, flood(bridge.Call, bridge.Map{{"tool", "a:b"}}), "calls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, o bridge.Options) {
				out, err := hostile(t, o, c.limits, c.script)
				var limit *toolroom.Error
				if !errors.As(err, &limit) || limit.Code != toolroom.CodeResourceLimit || limit.Limit != c.limit {
					t.Errorf("the run ended with %v, %v", out, err)
				}
			})
		})
	}
}

func TestARunThatIgnoresItsCancelEndsAfterTheGracePeriod(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, o bridge.Options) {
		host, guest := pair(t)
		go func() {
			g, err := bridge.Join(guest, bridge.GuestOptions{})
			if err == nil {
				_, _ = g.Next(context.Background()) // and never ends it
			}
		}()
		conn, err := bridge.Accept(t.Context(), host, o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if out, err := conn.Run(ctx, bridge.Program{}, quiet{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the run ended with %v, %v", out, err)
		}
	})
}

func TestAcceptGivesUpOnAGuestThatSendsNoHello(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, o bridge.Options) {
		host, _ := pair(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := bridge.Accept(ctx, host, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the wait ended with %v", err)
		}
	})
}

// Frames of a run that was cancelled as it ended must not reach the next run.
func TestAGuestThatEndsWhenItIsCancelledRunsTheNextProgram(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, o bridge.Options) {
		o.Grace = time.Minute
		host, guest := pair(t)
		go func() {
			w := bridge.NewWire(guest)
			_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}})
			for {
				start, _, err := w.Read()
				if err != nil {
					return
				}
				answer := bridge.Frame{Kind: bridge.Done, Token: start.Token}
				if start.Body.Text("source") == "wait" {
					if next, _, err := w.Read(); err != nil || next.Kind != bridge.Cancel {
						return
					}
					answer = bridge.Frame{Kind: bridge.Failed, Token: start.Token, Body: bridge.Map{{"kind", string(bridge.FailCancelled)}}}
				}
				if start.Kind != bridge.Start || w.Write(answer) != nil {
					return
				}
			}
		}()
		conn, err := bridge.Accept(t.Context(), host, o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if i%2 == 0 {
				cancel() // the guest must see the program first, then its cancellation
			}
			out, err := conn.Run(ctx, bridge.Program{Source: "wait"}, quiet{})
			cancel()
			if err != nil || out.Failure == nil || out.Failure.Kind != bridge.FailCancelled {
				t.Fatalf("the cancelled run ended with %v, %v", out, err)
			}
			if out, err = conn.Run(t.Context(), bridge.Program{}, quiet{}); err != nil || out.Failure != nil {
				t.Fatalf("the run after it ended with %v, %v", out, err)
			}
		}
	})
}

// A guest may answer at the very moment at which it is given up. Then the run has failed, or
// the connection serves the next one.
func TestAnAnswerAtTheEndOfTheGracePeriodBreaksNoLaterRun(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		for range 500 {
			host, guest := net.Pipe()
			go func() {
				w := bridge.NewWire(guest)
				_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}})
				for {
					f, _, err := w.Read()
					switch {
					case err != nil:
						return
					case f.Kind == bridge.Cancel:
						time.Sleep(grace)
						err = w.Write(bridge.Frame{Kind: bridge.Failed, Token: f.Token, Body: bridge.Map{{"kind", string(bridge.FailCancelled)}}})
					case f.Body.Text("source") == "":
						err = w.Write(bridge.Frame{Kind: bridge.Done, Token: f.Token})
					}
					if err != nil {
						return
					}
				}
			}()
			conn, err := bridge.Accept(t.Context(), host, bridge.Options{Direct: true, Grace: grace})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err = conn.Run(ctx, bridge.Program{Source: "wait"}, quiet{}); err == nil {
				synctest.Wait()
				if _, err := conn.Run(t.Context(), bridge.Program{}, quiet{}); err != nil {
					t.Errorf("the next run: %v", err)
				}
			}
			cancel()
			conn.Close()
			guest.Close()
		}
	})
}

// Otherwise a guest that sends requests and does not read would block the
// server's answers, and with them the run, for ever.
func TestAGuestThatDoesNotReadItsAnswersBlocksNothing(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bridge.Kind{"and asks no more": 0, "and is done": bridge.Done} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothWays(t, func(t *testing.T, o bridge.Options) {
				host, guest := pair(t) // each write waits for its reader
				go func() {
					w := bridge.NewWire(guest)
					_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}})
					start, _, err := w.Read()
					for id := uint64(1); id <= 20 && err == nil; id++ {
						err = w.Write(bridge.Frame{Kind: bridge.Call, ID: id, Token: start.Token, Body: bridge.Map{{"tool", "a:b"}}})
					}
					if last != 0 {
						_ = w.Write(bridge.Frame{Kind: last, Token: start.Token})
					}
				}()
				conn, err := bridge.Accept(t.Context(), host, o)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				out, err := conn.Run(ctx, bridge.Program{}, quiet{})
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, bridge.ErrProtocol) {
					t.Errorf("the run ended with %v, %v", out, err)
				}
			})
		})
	}
}

// quiet is a call handler that answers every request with null.
type quiet struct{}

func (quiet) Call(context.Context, string, bridge.Map) (bridge.Value, error) { return nil, nil }

func (quiet) Chain(context.Context, []bridge.Value) (bridge.Value, error) { return nil, nil }

func (quiet) Search(context.Context, string, int) (bridge.Value, error) { return nil, nil }

func (quiet) Describe(context.Context, string, string) (bridge.Value, error) { return nil, nil }

func (quiet) Put(context.Context, string, string, []byte) (bridge.Handle, error) {
	return bridge.Handle{}, nil
}
func (quiet) Print(string, string)              {}
func (quiet) Progress(float64, float64, string) {}
func (quiet) Log(string, string, bridge.Map)    {}
func (quiet) Get(context.Context, string, int64, int64) ([]byte, bridge.Handle, error) {
	return nil, bridge.Handle{}, nil
}

func TestRunEndsOnTimeIfTheGuestDoesNotEvenReadItsProgram(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		here, there := net.Pipe()
		t.Cleanup(func() { here.Close(); there.Close() })
		go func() {
			_ = bridge.NewWire(there).Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(1)}}}})
		}()
		conn, err := bridge.Accept(t.Context(), here, bridge.Options{Direct: direct})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := conn.Run(ctx, bridge.Program{}, silent{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("direct %t: %v", direct, err)
		}
	}
}

// panicking is a call handler with a bug.
type panicking struct{ quiet }

func (panicking) Call(context.Context, string, bridge.Map) (bridge.Value, error) { panic("boom") }

func TestAHandlerThatPanicsAnswersItsProgramWithAnError(t *testing.T) {
	t.Parallel()
	host, guest := pair(t)
	answers := make(chan bridge.Frame, 1)
	go func() {
		w := bridge.NewWire(guest)
		_ = w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{"versions", []bridge.Value{int64(1)}}}})
		start, _, err := w.Read()
		if err != nil {
			return
		}
		_ = w.Write(bridge.Frame{Kind: bridge.Call, ID: 1, Token: start.Token, Body: bridge.Map{{"tool", "a:it"}}})
		answer, _, _ := w.Read()
		answers <- answer
		_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token, Body: bridge.Map{{"value", int64(7)}}})
	}()
	conn, err := bridge.Accept(t.Context(), host, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	out, err := conn.Run(t.Context(), bridge.Program{Language: "test", Limits: bridge.Limits{Calls: 5}}, panicking{})
	if err != nil || out.Value != int64(7) {
		t.Fatalf("the run ended with %+v, %v", out, err)
	}
	if failed, _ := (<-answers).Body.Get("error").(bridge.Map); failed.Text("code") != string(toolroom.CodeInternal) {
		t.Errorf("the program got %v", failed)
	}
}

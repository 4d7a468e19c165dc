package quickjs

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// echo is a small prelude. The first frame is a program, and its result is the last
// frame. Unlike a real prelude it passes the host functions to the program.
const echo = `{
	const host = __hostFunctions, status = new Int32Array(16), evaluate = eval;
	const say = (kind, text) => { status[3] = kind; status[4] = 0; host.send(text); };
	host.status = status;
	status[1] = -1;
	host.deliver = (body) => {
		if (!body) return say(1, body === null ? "nothing can happen" : "a timer");
		if (status[2] !== 0) return say(1, "then " + body);
		status[2] = 400; // more than is there
		Object.assign(globalThis, {say, host, status});
		try {
			const value = evaluate(body);
			if (value !== undefined) say(1, String(value));
		} catch (e) {
			say(1, "threw " + e);
		}
	};
}`

func open(t *testing.T) *Machine {
	t.Helper()
	m, err := New(t.Context(), echo, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func isolate(t *testing.T, m *Machine) *Isolate {
	t.Helper()
	i, err := m.Isolate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func eval(t *testing.T, i *Isolate, program string, more ...Frame) (string, End, error) {
	t.Helper()
	return evalWithin(t, i, Port{Wall: time.Minute, Memory: 32 << 20}, program, more...)
}

func evalWithin(t *testing.T, i *Isolate, limits Port, program string, more ...Frame) (string, End, error) {
	t.Helper()
	inbox := wasm.NewInbox[Frame]()
	inbox.Put(Frame{Body: []byte(program), Text: true})
	for _, f := range more {
		inbox.Put(f)
	}
	var out []string
	limits.Inbox, limits.Send = inbox, func(f Frame) (bool, error) {
		if string(f.Body) == "refuse me" {
			return false, errors.New("refused")
		}
		out = append(out, string(f.Body))
		return f.Kind == 1, nil
	}
	end, err := i.Run(t.Context(), limits)
	return strings.Join(out, ", "), end, err
}

func TestProgramsEndInOneOfTheEnds(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, c := range []struct {
		name, program string
		want          string
		end           End
	}{
		{"a value", `6 * 7`, "42", Finished},
		{"text beyond ASCII", `"grüße 🦜"`, "grüße 🦜", Finished},
		{"several frames", `say(0, "one"); say(0, "two"); "three"`, "one, two, three", Finished},
		{"promises", `Promise.resolve(5).then((n) => say(1, "got " + n)); undefined`, "got 5", Finished},
		{"nothing", `undefined`, "nothing can happen", Finished},
		{"a timer", `status[1] = 1; undefined`, "a timer", Finished},
		{"an error", `null.x`, "threw TypeError: cannot read property 'x' of null", Finished},
		{"a loop", `for (;;) {}`, "", TimedOut},
		{"waiting for an answer that never comes", `status[0] = 1; undefined`, "", TimedOut},
		{"a busy native", `/(a+)+$/.test("a".repeat(50) + "b")`, "", TimedOut},
		{"recursion", `const f = () => f() + 1; f()`, "threw RangeError: Maximum call stack size exceeded", Finished},
		{"memory", `const a = []; for (;;) a.push(new Uint8Array(1 << 20))`, "threw InternalError: out of memory", Finished},
		{"waiting for a frame while standing still", `status[0] = 1; host.await()`, "", TimedOut},
		{"an object at a host function that takes text", `String(host.encoded({toString() { for (;;); }}))`, "undefined", Finished},
		{"an object at a host function that takes bytes", `String(host.text({get length() { for (;;); }, buffer: 1}))`, "undefined", Finished},
		{"offsets beyond the bytes", `status[2] = -5; status[3] = 1e9; String(host.text(new Uint8Array(4)))`, "undefined", Finished},
		{"a length beyond the bytes", `status[2] = 1e9; status[3] = 1; host.send(new Uint8Array(4)); "went on"`, "went on", Finished},
		{"too many random bytes", `status[2] = 1e9; String(host.random())`, "undefined", Finished},
		{"a proxy at a host function", `const p = new Proxy({}, {get() { host.send("inner"); return p; }}); host.send(p); "out"`, "out", Finished},
		{"a host function without an argument", `host.send(); "went on"`, "went on", Finished},
		{"going on after the last frame", `say(1, "last"); say(1, "more"); for (;;) {}`, "last", Finished},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := isolate(t, m)
			defer i.Release()
			limits := Port{Wall: time.Minute, Memory: 32 << 20}
			if c.end == TimedOut {
				limits.Wall = 300 * time.Millisecond
			}
			got, end, err := evalWithin(t, i, limits, c.program)
			if err != nil || end != c.end || got != c.want {
				t.Errorf("got %q, end %d, %v; want %q, end %d", got, end, err, c.want, c.end)
			}
		})
	}
}

func TestAFrameThatIsRefusedEndsTheRun(t *testing.T) {
	t.Parallel()
	i := isolate(t, open(t))
	defer i.Release()
	if _, end, err := eval(t, i, `try { say(0, "refuse me") } catch (e) {} for (;;) {}`); end != Crashed || err == nil || err.Error() != "refused" {
		t.Errorf("end %d, %v", end, err)
	}
}

func TestFramesReachTheGuestAsTextAndBytesOfAnySize(t *testing.T) {
	t.Parallel()
	m := open(t)
	for _, size := range []int{0, 1, bufferSize, bufferSize + 1, 3 << 20} {
		for _, text := range []bool{true, false} {
			i := isolate(t, m)
			body := bytes.Repeat([]byte("a"), size)
			got, end, err := evalWithin(t, i, Port{}, `status[0] = 1; const b = host.await(); typeof b + " " + b.length + " " + status[2] + " " + status[3]`, Frame{Kind: 33, ID: 9, Body: body, Text: text})
			i.Release()
			want := fmt.Sprintf("%s %d 33 9", map[bool]string{true: "string", false: "object"}[text], size)
			if err != nil || end != Finished || got != want {
				t.Errorf("got %q, end %d, %v; want %q", got, end, err, want)
			}
		}
	}
}

func TestTenThousandRunsLeaveNoByteBehind(t *testing.T) {
	t.Parallel()
	m := open(t)
	programs := []string{
		`globalThis.leak = 1; Object.prototype.leak = 1; "left"`,
		`"x".repeat(100000).length`,
		`Array.from({length: 1000}, (_, i) => ({i})).length`,
		`null.x`,
		`Promise.resolve().then(() => say(1, "later")); undefined`,
	}
	for n := range 10_000 {
		i := isolate(t, m)
		if content, _ := i.Module.Memory().Read(0, i.Module.Memory().Size()); n%7 == 0 && !bytes.Equal(content, m.Image().Bytes()) {
			t.Fatalf("before run %d the memory differs from the image", n)
		}
		if n%2 == 1 {
			if got, _, err := eval(t, i, `typeof leak + typeof ({}).leak`); got != "undefinedundefined" || err != nil {
				t.Fatalf("run %d sees %s, %v", n, got, err)
			}
		} else if _, end, err := eval(t, i, programs[n/2%len(programs)]); end != Finished || err != nil {
			t.Fatalf("run %d: end %d, %v", n, end, err)
		}
		i.Release()
	}
}

func TestAnIsolateThatCannotBeResetIsReplaced(t *testing.T) {
	t.Parallel()
	m := open(t)
	for name, program := range map[string]string{
		"grown":   `new Uint8Array(20 << 20).length`,
		"stopped": `for (;;) {}`,
	} {
		i := isolate(t, m)
		_, _, err := evalWithin(t, i, Port{Wall: 2 * time.Second, Memory: 32 << 20}, program)
		i.Release()
		next := isolate(t, m)
		if err != nil || next == i {
			t.Errorf("%s: the isolate was kept, %v", name, err)
		}
		next.Release()
	}
}

func TestRandomBytesDifferFromRunToRun(t *testing.T) {
	t.Parallel()
	m := open(t)
	seen := map[string]bool{}
	for range 50 {
		i := isolate(t, m)
		got, _, err := eval(t, i, `status[2] = 16; host.random().join()`)
		i.Release()
		if err != nil || seen[got] {
			t.Fatalf("%s again, %v", got, err)
		}
		seen[got] = true
	}
}

func TestTheBlobIsTheOneThatWasCheckedIn(t *testing.T) {
	t.Parallel()
	if err := checkBlob(); err != nil {
		t.Error(err)
	}
}

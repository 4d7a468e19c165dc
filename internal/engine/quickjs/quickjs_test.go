package quickjs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

// A small prelude: a frame is a program, what it gives is the last frame.
const prelude = `{
	const d = __doors, status = new Int32Array(16);
	const say = (s) => { const b = d.encoded(String(s)); status[2] = b.length; d.send(b); };
	let first = true;
	status[1] = -1;
	d.status = status;
	const evaluate = eval;
	d.deliver = (frame) => {
		if (!frame) return say(frame === null ? "!stuck" : "tick");
		status[2] = 0; status[3] = frame.length;
		const text = d.text(frame);
		if (!first) return say("next " + text);
		first = false;
		status[2] = 300; status[3] = 64; d.limits();
		try { globalThis.say = say; globalThis.evaluate=evaluate; globalThis.doors = d; globalThis.status = status; const v = evaluate(text); if (v !== undefined) say("!" + v); }
		catch (e) { say("!error " + e); }
	};
}`

func machine(t testing.TB) *quickjs.Machine {
	t.Helper()
	m, err := quickjs.New(t.Context(), quickjs.Options{Prelude: prelude, CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

var cache string

func TestMain(m *testing.M) {
	m.Run()
}

func eval(t testing.TB, m *quickjs.Machine, program string, more ...string) (string, quickjs.End) {
	t.Helper()
	i, err := m.Isolate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer i.Release()
	inbox := quickjs.NewInbox()
	inbox.Put([]byte(program))
	for _, f := range more {
		inbox.Put([]byte(f))
	}
	var out []string
	end, err := i.Run(t.Context(), quickjs.Port{Inbox: inbox, MaxFrame: 1 << 20, Send: func(frame []byte) (bool, error) {
		out = append(out, string(frame))
		return frame[0] == '!', nil
	}})
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.Join(out, "|"), end
}

func TestSpike(t *testing.T) {
	start := time.Now()
	m := machine(t)
	t.Log("boot", time.Since(start))
	for _, p := range []string{
		"try { evaluate('let a = 1;\\n  foo bar') } catch (e) { e.stack + JSON.stringify(Object.getOwnPropertyNames(e))+e.lineNumber }", "try { evaluate('(async()=>{ function f(){ null.x }\\n  f() })')().catch(e=>say('!'+e.stack)) } catch (e) { e.stack }; undefined",
		"Object.getOwnPropertyNames(globalThis).join()", "typeof Uint8Array.fromHex + typeof ''.isWellFormed+ typeof structuredClone", "navigator.userAgent + performance.now()",
	} {
		start := time.Now()
		out, end := eval(t, m, p)

		t.Log(p, "=>", out, end, time.Since(start))
	}
	for range 5 {
		start = time.Now()
		for range 1000 {
			if out, _ := eval(t, m, "1+1"); out != "!2" {
				t.Fatal(out)
			}
		}
		t.Log("1000 runs", time.Since(start))
	}
}

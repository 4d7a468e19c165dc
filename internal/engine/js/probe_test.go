package js_test

import (
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

func TestProbe(t *testing.T) {
	e := inProcess(t)
	defer e.Close()
	for _, body := range []string{"0", "new Error('')", "new Promise((a,b)=>{})", "({...{a:1}})", "m.set(i, 1)", "[1,2,3].map(x=>x)", "Object.keys({a:1,b:2})", "'abc'.charCodeAt(1)", "new TextEncoder().encode('abcdefghijklmnopqrstuvwxyzabcdef')", "(() => 1)()", "new Uint8Array(16)", "for (const x of [1,2,3]);", "Date.now()", "let [a,b]=[1,2]", "Reflect.apply(f, 'abc', [1])", "new Proxy({}, {})", "Object.defineProperty({}, 'x', {value:1, writable:true})", "Promise.resolve(1)", "JSON.parse('{\"a\":1}')", "await 1", "await number.same({n: 1})"} {
		job := engine.Job{Owner: "bench", Program: bridge.Program{
			Language: "javascript", Name: "main.js", Tools: numbers, Limits: bridge.Limits{Calls: 1000},
			Source: "const number=tools.number;const m = new Map(); const f = ''.charCodeAt; const t = performance.now(); for (let i = 0; i < 1000; i++) { " + body + "}\n return performance.now() - t",
		}}
		r, err := e.Run(t.Context(), job, silent{})
		if err != nil {
			t.Fatal(err)
		}
		t.Log(body, r.Outcome.Value, r.Outcome.Failure)
	}
}

package hosted_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/sandbox"
)

// inNode runs a program in Node under the driver process and returns its value.
func inNode(t *testing.T, e engine.Engine, job engine.Job, source string) bridge.Value {
	t.Helper()
	self := selfWith(t, "node")
	job.Run, job.Owner = "run-node", "functions"
	job.Sandbox.Profile, job.Sandbox.Guest, job.Sandbox.Args = sandbox.Standard, self, []string{guest.MainArg}
	job.Program = bridge.Program{Language: "javascript", Name: "main.js", Limits: bridge.Limits{Wall: 30_000}, Source: source}
	result, err := e.Run(t.Context(), job, quiet{})
	if err != nil {
		t.Fatal(err)
	}
	if f := result.Outcome.Failure; f != nil {
		t.Fatalf("%s\n%s", f.Message, f.Trace)
	}
	return result.Outcome.Value
}

func TestNodeReachesOtherMachinesThroughTheProxyOnly(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Method, r.Host, len(body))
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				fmt.Fprint(conn, "first ") // before the client has said anything
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	to := map[string]string{"plain.test:80": plain.Listener.Addr().String(), "secure.test:443": secure.Listener.Addr().String(), "echo.test:7": echo.Addr().String(), "203.0.113.7:7": echo.Addr().String()}
	var mu sync.Mutex
	asked := map[string]bool{}
	job := engine.Job{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		mu.Lock()
		asked[address] = true
		mu.Unlock()
		if to[address] == "" {
			return nil, toolroom.Errorf(toolroom.CodeDenied, "the guard refuses %s", address)
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", to[address])
	}}
	job.Sandbox.Egress = []string{"*.test:80"}
	e := hosted.New(process.New(selfWith(t), []string{guest.MainArg}))
	t.Cleanup(func() { e.Close() })
	got := inNode(t, e, job, `
const http = require("http"), https = require("https"), net = require("net"), tls = require("tls"), {Worker} = require("worker_threads")
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"
const read = (stream) => new Promise((done, fail) => { let all = ""; stream.on("data", (c) => all += c); stream.on("end", () => done(all)); stream.on("error", fail) })
const over = (request) => new Promise((done, fail) => request.on("response", (r) => read(r).then(done)).on("error", fail))
const all = []
const add = async (f) => { try { all.push(await f()) } catch (e) { all.push((e.cause ?? e).message) } }
const text = "x".repeat(300000)
await add(async () => (await fetch("http://plain.test/")).text())
await add(async () => (await fetch("https://secure.test/", {method: "POST", body: text})).text())
await add(async () => (await fetch("https://other.test/")).text())
await add(() => over(http.get("http://plain.test/")))
await add(() => over(https.get("https://secure.test/")))
await add(() => { const r = https.request("https://secure.test/", {method: "PUT", agent: new https.Agent({keepAlive: false})}); r.end(text); return over(r) })
await add(() => { const s = net.connect(7, "echo.test", () => s.end("raw")); return read(s) })
await add(() => { const s = new net.Socket(); s.connect({host: "203.0.113.7", port: 7}); s.write("early "); s.end("end"); return read(s) })
await add(() => new Promise((done, fail) => net.connect(9, "other.test", () => done("connected")).on("error", fail)))
await add(() => new Promise((done, fail) => { const s = tls.connect(443, "secure.test", {rejectUnauthorized: false}, () => { s.destroy(); done("secure") }); s.on("error", fail) }))
await add(() => new Promise((done, fail) => new Worker("fetch('http://plain.test/').then((r) => r.text()).then((t) => require('worker_threads').parentPort.postMessage(t))", {eval: true}).on("message", done).on("error", fail)))
const here = net.createServer((s) => s.end("own")).listen(0, "127.0.0.1")
await require("events").once(here, "listening")
await add(() => read(net.connect(here.address().port, "127.0.0.1")))
here.close()
return all
`)
	want := []string{
		"GET plain.test 0", "POST secure.test 300000", "cannot connect to other.test:443: the guard refuses other.test:443",
		"GET plain.test 0", "GET secure.test 0", "PUT secure.test 300000", "first raw", "first early end",
		"cannot connect to other.test:9: the guard refuses other.test:9", "secure", "GET plain.test 0", "own",
	}
	list, _ := got.([]bridge.Value)
	for i, line := range want {
		if i >= len(list) || list[i] != line {
			t.Errorf("%d: got %v, want %q", i, list, line)
			break
		}
	}
	if len(asked) != 6 {
		t.Errorf("the guard was asked for %v", asked)
	}
}

func TestAProcessOfNodeThatWaitsHasLoadedItsPackagesAndIsUsedOnce(t *testing.T) {
	t.Parallel()
	layer := t.TempDir()
	folder := filepath.Join(layer, "node_modules", "counter")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(layer, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "index.js"), []byte("exports.loaded = Date.now()\nexports.up = () => exports.n = (exports.n ?? 0) + 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	self := selfWith(t, "node")
	e := hosted.NewWarm(process.New(self, []string{guest.MainArg}), hosted.Warm{Size: 1})
	t.Cleanup(func() { e.Close() })
	e.Warm(sandbox.Spec{Profile: sandbox.Standard, Guest: self, Args: []string{guest.MainArg}})
	job := engine.Job{StartAhead: true, Layer: engine.Layer{Digest: "d", Path: layer, Preload: []string{"|counter"}}}
	const source = "const begun = Date.now(), c = globalThis.__toolroom_load__('|counter')\nreturn [c.up(), process.pid, c.loaded < begun, process.env.TOOLROOM_PRELOAD === undefined]"
	waited := 0
	for i := 0; waited < 3; i++ {
		if i == 2000 {
			t.Fatalf("%d of %d programs had a process that waited: %+v", waited, i, e.Kinds())
		}
		if kinds := e.Kinds(); i > 0 && (len(kinds) != 1 || kinds[0].Ready == 0) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		before := 0
		if i > 0 {
			before = e.Kinds()[0].Taken
		}
		got, _ := inNode(t, e, job, source).([]bridge.Value)
		if len(got) != 4 || got[0] != int64(1) || got[3] != true {
			t.Fatalf("got %v", got)
		}
		if i > 0 && e.Kinds()[0].Taken > before {
			waited++
			if got[2] != true {
				t.Errorf("the package was loaded when the program came: %v", got)
			}
		}
	}
	docker := engine.Job{Layer: job.Layer}
	docker.Sandbox = sandbox.Spec{Guest: self}
	if _, err := hosted.New(slow{}).Run(t.Context(), docker, quiet{}); toolroom.CodeOf(err) != toolroom.CodeLimitNotEnforceable {
		t.Errorf("a driver that shows no packages: %v", err)
	}
}

//go:build linux

package shell_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/builtin/shell"
	"github.com/toolroom/toolroom/internal/egress"
)

// inside is what this binary does as a program in the sandbox: it serves a text on a port, or
// prints what an address returns.
func inside(args []string) int {
	if args[0] == "serve" {
		l, err := net.Listen("tcp", args[1])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("ready")
		err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%s for %s", args[2], r.URL.Path) }))
		fmt.Println(err)
		return 1
	}
	status := 0
	client := &http.Client{Timeout: 20 * time.Second}
	for _, address := range args[1:] {
		r, err := client.Get(address)
		if err != nil {
			fmt.Println(err)
			status = 1
			continue
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		fmt.Println(strings.TrimSpace(string(text)))
	}
	return status
}

// withBinary puts this binary into the folder of the tools, as ./inside.
func (k *kit) withBinary() {
	k.t.Helper()
	self, err := os.Executable()
	if err != nil {
		k.t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err == nil {
		err = os.WriteFile(filepath.Join(k.dir, "inside"), data, 0o700)
	}
	if err != nil {
		k.t.Fatal(err)
	}
}

// serve starts a server in the background and waits until it listens.
func (k *kit) serve(who, address, text string) (pid int) {
	k.t.Helper()
	out, err := k.process.Call(k.t.Context(), request("process:start", who, map[string]any{"command": "./inside", "args": []string{"inside", "serve", address, text}}))
	p, err := decode[shell.Status](k.t, out, err)
	if err != nil {
		k.t.Fatal(err)
	}
	out, err = k.process.Call(k.t.Context(), request("process:output", who, map[string]any{"pid": p.PID, "wait": 30_000}))
	if got, err := decode[shell.OutputResult](k.t, out, err); err != nil || got.Output != "ready\n" {
		k.t.Fatalf("%+v, %v", got, err)
	}
	return p.PID
}

func (k *kit) get(who string, addresses ...string) string {
	k.t.Helper()
	out, err := k.exec.Call(k.t.Context(), request("shell:exec", who, map[string]any{"command": "./inside inside get " + strings.Join(addresses, " ")}))
	got, err := decode[shell.ExecResult](k.t, out, err)
	if err != nil {
		k.t.Fatal(err)
	}
	return got.Stdout
}

func TestServersOfBackgroundProcessesAreReachedByTheirCallerOnly(t *testing.T) {
	t.Parallel()
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	k.withBinary()
	pid := k.serve("ann", "127.0.0.1:8123", "ann's")
	k.serve("ann", "[::1]:8124", "ann's other")
	k.serve("bob", "127.0.0.1:8123", "bob's")
	if got := k.get("ann", "http://127.0.0.1:8123/x", "http://localhost:8124/y"); got != "ann's for /x\nann's other for /y\n" {
		t.Errorf("a command of ann gets %q", got)
	}
	if got := k.get("bob", "http://127.0.0.1:8123/x", "http://localhost:8124/y"); !strings.HasPrefix(got, "bob's for /x\n") || !strings.Contains(got, "refused") {
		t.Errorf("a command of bob gets %q", got)
	}
	if got := k.get("eve", "http://127.0.0.1:8123/x"); !strings.Contains(got, "refused") {
		t.Errorf("a command of eve gets %q", got)
	}

	// So do the connections of the server itself.
	fetch := func(who, address string) (string, error) {
		guard := (&egress.Guard{}).WithLocal(k.shell.Servers(toolroom.Identity{Subject: who}))
		client := &http.Client{Transport: guard.Transport()}
		defer client.CloseIdleConnections()
		r, err := client.Get(address)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return string(text), err
	}
	for who, want := range map[string]string{"ann": "ann's for /z", "bob": "bob's for /z"} {
		if got, err := fetch(who, "http://localhost:8123/z"); err != nil || got != want {
			t.Errorf("%s: %q, %v", who, got, err)
		}
	}
	if got, err := fetch("ann", "http://[::1]:8124/z"); err != nil || got != "ann's other for /z" {
		t.Errorf("%q, %v", got, err)
	}
	// A port that nobody serves inside stays that of this machine, which is refused.
	here := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("this machine was reached") }))
	defer here.Close()
	for _, address := range []string{here.URL, strings.Replace(here.URL, "127.0.0.1", "localhost", 1), "http://127.0.0.2:8123/", "http://localhost.localdomain:8123/"} {
		if _, err := fetch("ann", address); toolroom.CodeOf(err) != toolroom.CodeDenied {
			t.Errorf("%s: %v", address, err)
		}
	}
	if got := k.get("ann", here.URL); !strings.Contains(got, "refused") {
		t.Errorf("a command reaches this machine: %q", got)
	}
	if _, err := fetch("eve", "http://localhost:8123/"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Error(err)
	}
	denying, err := egress.New(egress.Policy{Deny: []string{"loopback"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := denying.WithLocal(k.shell.Servers(toolroom.Identity{Subject: "ann"})).DialContext(t.Context(), "tcp", "127.0.0.1:8123"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("a rule that denies does not win: %v", err)
	}

	if _, err := k.process.Call(t.Context(), request("process:kill", "ann", map[string]any{"pid": pid, "signal": "SIGKILL"})); err != nil {
		t.Fatal(err)
	}
	if _, err := fetch("ann", "http://localhost:8123/"); toolroom.CodeOf(err) != toolroom.CodeDenied {
		t.Errorf("after its end: %v", err)
	}
}

func TestAGuardedCommandReachesWhatTheGuardPermits(t *testing.T) {
	t.Parallel()
	permitted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "permitted") }))
	defer permitted.Close()
	_, port, _ := net.SplitHostPort(permitted.Listener.Addr().String())
	guard, err := egress.New(egress.Policy{Allow: []string{"127.0.0.1:" + port}})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	k := newKitIn(t, dir, shell.RuntimeProcess, folder.Options{}, func(o *shell.Options) {
		o.Proxy = func(l net.Listener, done <-chan struct{}) {
			calls++
			egress.ServeProxy(l, guard, nil, nil, done)
		}
	})
	k.withBinary()
	// Programs do not use a proxy for the loopback by themselves.
	out, err := k.run(map[string]any{"command": "env -u NO_PROXY -u no_proxy bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf \"GET " + permitted.URL + "/ HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n\" >&3; cat <&3'; ./inside inside get http://10.1.2.3/ http://example.invalid/; echo $HTTPS_PROXY"})
	if err != nil || !strings.Contains(out.Stdout, "permitted") || !strings.Contains(out.Stdout, "10.1.2.3") || !strings.Contains(out.Stdout, "private address") || !strings.HasSuffix(out.Stdout, "http://127.0.0.1:3128\n") {
		t.Errorf("%+v, %v", out, err)
	}
	if calls == 0 {
		t.Error("there is no proxy")
	}
}

func TestACommandWithoutANetworkSaysSo(t *testing.T) {
	t.Parallel()
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	out, err := k.exec.Call(t.Context(), request("shell:exec", "", map[string]any{"command": "echo 'curl: (6) Could not resolve host: example.com' >&2; exit 6"}))
	if err != nil || len(out.Content) != 1 || !strings.Contains(out.Content[0].Text, "network: guarded") {
		t.Errorf("%+v, %v", out, err)
	}
	out, err = k.exec.Call(t.Context(), request("shell:exec", "", map[string]any{"command": "exit 6"}))
	if err != nil || len(out.Content) != 1 || strings.Contains(out.Content[0].Text, "network") {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestAHomeOutlivesItsCommandForTheSameCaller(t *testing.T) {
	t.Parallel()
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	run := func(who, command string) string {
		out, err := k.exec.Call(context.WithoutCancel(t.Context()), request("shell:exec", who, map[string]any{"command": command}))
		got, err := decode[shell.ExecResult](t, out, err)
		if err != nil {
			t.Fatal(err)
		}
		return got.Stdout + got.Stderr
	}
	if got := run("ann", "mkdir -p ~/.cache/x && echo ann > ~/.cache/x/y && echo ~"); got != "/run/home\n" {
		t.Error(got)
	}
	if got := run("ann", "cat ~/.cache/x/y"); got != "ann\n" {
		t.Error(got)
	}
	if got := run("bob", "cat ~/.cache/x/y; ls -A ~"); !strings.Contains(got, "No such file") {
		t.Errorf("bob sees the home of ann: %s", got)
	}
}

func TestACommandOutOfTimeShowsWhatItPrinted(t *testing.T) {
	t.Parallel()
	k := newKit(t, shell.RuntimeProcess, folder.Options{})
	if _, err := k.run(map[string]any{"command": "echo step one; echo warning >&2; sleep 60", "timeout": 3000}); toolroom.CodeOf(err) != toolroom.CodeTimeout || !strings.Contains(err.Error(), "step one") || !strings.Contains(err.Error(), "warning") {
		t.Error(err)
	}
}

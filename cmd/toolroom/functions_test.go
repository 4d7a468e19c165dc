package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// author is a person at a shell: each command runs in a new process.
type author struct {
	t      *testing.T
	binary string
	folder string
}

func newAuthor(t *testing.T) *author {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("functions need the sandboxes of Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	a := &author{t: t, folder: t.TempDir()}
	a.binary = filepath.Join(a.folder, "toolroom")
	if err := os.Symlink(self, a.binary); err != nil {
		t.Fatal(err)
	}
	makeHome(t, filepath.Join(a.folder, "home"))
	return a
}

func (a *author) command(args ...string) *exec.Cmd {
	c := exec.CommandContext(a.t.Context(), a.binary, append([]string{"--home", filepath.Join(a.folder, "home")}, args...)...)
	c.Dir = a.folder
	return c
}

// try runs a command and returns its output and its exit code.
func (a *author) try(args ...string) (string, int) {
	a.t.Helper()
	out, err := a.command(args...).CombinedOutput()
	code := 0
	if err != nil {
		code = 1
		if exit, ok := err.(*exec.ExitError); ok {
			code = exit.ExitCode()
		}
	}
	return string(out), code
}

// run runs a command that must succeed and print want.
func (a *author) run(want string, args ...string) string {
	a.t.Helper()
	out, code := a.try(args...)
	if code != 0 || !strings.Contains(out, want) {
		a.t.Fatalf("toolroom %s: exit code %d, want %q in:\n%s", strings.Join(args, " "), code, want, out)
	}
	return out
}

// runFailing runs a command that must exit with code and print every text in want.
func (a *author) runFailing(code int, args []string, want ...string) {
	a.t.Helper()
	out, got := a.try(args...)
	if got != code {
		a.t.Errorf("toolroom %s: exit code %d, want %d:\n%s", strings.Join(args, " "), got, code, out)
	}
	for _, w := range want {
		if !strings.Contains(out, w) {
			a.t.Errorf("toolroom %s: %q is missing in:\n%s", strings.Join(args, " "), w, out)
		}
	}
}

func (a *author) write(name, text string) {
	a.t.Helper()
	path := filepath.Join(a.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// agent is an MCP client on the standard streams of a server.
type agent struct {
	t     *testing.T
	in    io.Writer
	lines chan string
	last  int
}

func (a *author) connect(flags ...string) *agent {
	a.t.Helper()
	server := a.command(append([]string{"serve", "--stdio"}, flags...)...)
	in, err := server.StdinPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		a.t.Fatal(err)
	}
	var stderr bytes.Buffer
	server.Stderr = &stderr
	if err := server.Start(); err != nil {
		a.t.Fatal(err)
	}
	c := &agent{t: a.t, in: in, lines: make(chan string, 1000)}
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	a.t.Cleanup(func() {
		in.Close()
		server.Wait()
		if a.t.Failed() {
			a.t.Logf("the server said: %s", stderr.String())
		}
	})
	c.request("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	fmt.Fprintln(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// request sends a request and returns the answer.
func (c *agent) request(method, params string) string {
	c.t.Helper()
	c.last++
	fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.last, method, params)
	return c.until(func(m string) bool {
		var answer struct {
			ID     int
			Method string
		}
		return json.Unmarshal([]byte(m), &answer) == nil && answer.Method == "" && answer.ID == c.last
	})
}

func (c *agent) until(is func(string) bool) string {
	c.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case m, ok := <-c.lines:
			if !ok {
				c.t.Fatal("the connection has ended")
			}
			if is(m) {
				return m
			}
		case <-timeout:
			c.t.Fatal("no such message within 30 s")
		}
	}
}

func (c *agent) waitForNotification(notification string) {
	c.t.Helper()
	c.until(func(m string) bool { return strings.Contains(m, notification) })
}

const doubleSource = `def double(x: int) -> int:
    """Double a number.

    Args:
        x: The number.
    """
    return x * 2
`

func TestAFunctionBecomesAToolThatConnectedClientsCallAndARollbackUndoesIt(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	a.write("double.py", doubleSource)
	a.run("fn:double: version 1", "tool", "push", "double.py")
	a.run("no changes", "tool", "push", "double.py")
	a.run("42", "tool", "test", "double", "x=21")
	a.runFailing(4, []string{"call", "fn:double", "x=21"}, "not released to prod")

	c := a.connect()
	if list := c.request("tools/list", "{}"); strings.Contains(list, "double") {
		t.Fatalf("a draft is listed: %s", list)
	}
	a.run("prod serves version 1", "tool", "release", "double", "--env", "prod")
	c.waitForNotification("notifications/tools/list_changed")
	if list := c.request("tools/list", "{}"); !strings.Contains(list, `"fn__double"`) || !strings.Contains(list, "Double a number.") {
		t.Fatalf("the released tool is not listed: %s", list)
	}
	if out := c.request("tools/call", `{"name":"fn__double","arguments":{"x":21}}`); !strings.Contains(out, `"value":42,`) {
		t.Errorf("the call returned %s", out)
	}
	if out := c.request("tools/call", `{"name":"fn__double","arguments":{"x":"no"}}`); !strings.Contains(out, "integer") {
		t.Errorf("a wrong argument: %s", out)
	}

	a.write("double.py", strings.Replace(doubleSource, "x * 2", "x * 20", 1))
	a.run("version 2", "tool", "push", "double.py", "-m", "bigger")
	a.run("instead of version 1", "tool", "release", "double")
	c.waitForNotification("notifications/tools/list_changed")
	if out := c.request("tools/call", `{"name":"fn__double","arguments":{"x":21}}`); !strings.Contains(out, `"value":420,`) {
		t.Errorf("version 2 returned %s", out)
	}
	a.run("42", "call", "fn:double@1", "x=21")
	a.run("serves version 1", "tool", "rollback", "double", "--reason", "too big")
	c.waitForNotification("notifications/tools/list_changed")
	if out := c.request("tools/call", `{"name":"fn__double","arguments":{"x":21}}`); !strings.Contains(out, `"value":42,`) {
		t.Errorf("after the rollback: %s", out)
	}
	a.run("no longer serves", "tool", "rollback", "double")
	c.waitForNotification("notifications/tools/list_changed")
	if list := c.request("tools/list", "{}"); strings.Contains(list, "double") {
		t.Errorf("the tool is still listed: %s", list)
	}
	a.runFailing(5, []string{"tool", "rollback", "double"}, "nothing to roll back", "tool log")
	log := a.run("too big", "tool", "log", "double")
	for _, action := range []string{"push", "release", "rollback"} {
		if !strings.Contains(log, action) {
			t.Errorf("the log has no %s:\n%s", action, log)
		}
	}
	if calls := a.run(`"digest"`, "calls", "--json", "--limit", "20"); !strings.Contains(calls, `"environment": "prod"`) || !strings.Contains(calls, `"version": 2`) {
		t.Errorf("the receipts lack version or environment:\n%s", calls)
	}
}

func TestACallToProdNeverFallsBackToTest(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	a.write("double.py", doubleSource)
	a.run("version 1", "tool", "push", "double.py")
	a.run("test serves version 1", "tool", "release", "double", "--env", "test")
	for _, spelled := range []string{"double", "fn:double", "fn__double", "fn.double"} {
		a.runFailing(4, []string{"call", spelled, `{"x": 21}`}, "not released to prod", "--env")
	}
	a.run("42", "call", "double", "x=21", "--env", "test")
	a.runFailing(5, []string{"call", "double", "x=21", "--env", "draft"}, `no environment "draft"`)
	a.runFailing(5, []string{"call", "double", "x=21", "--env", "nowhere"}, `no environment "nowhere"`)
	a.write("double.py", strings.Replace(doubleSource, "x * 2", "x * 3", 1))
	a.run("version 2", "tool", "push", "double.py")
	a.runFailing(4, []string{"call", "fn:double@2", `{"x": 21}`}, "never released")
	a.runFailing(4, []string{"call", "fn:double@3", `{"x": 21}`}, "no version 3")
	a.run("prod serves version 1", "tool", "promote", "double")
	a.run("42", "call", "double", "x=21")
}

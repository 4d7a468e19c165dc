package relay

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// programVariable is the environment variable that makes the test binary a server on stdio.
// Files in the folder that it names select the faults of the server.
const programVariable = "TOOLROOM_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch dir := os.Getenv(programVariable); {
	case dir == "child":
		time.Sleep(time.Hour)
	case dir != "":
		(&program{dir: dir}).serve()
	default:
		os.Exit(m.Run())
	}
}

// program is a server of an older revision on stdio, with a child process. At each call it
// reads the file "fault" of its folder, which selects its behaviour. It writes the files
// "processes" and "calls".
type program struct {
	dir  string
	out  sync.Mutex
	more atomic.Bool // whether it has one more tool
}

func (p *program) fault() string {
	fault, _ := os.ReadFile(filepath.Join(p.dir, "fault"))
	return string(fault)
}

func (p *program) set(t *testing.T, fault string) {
	t.Helper()
	next := filepath.Join(p.dir, "next")
	if err := os.WriteFile(next, []byte(fault), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(p.dir, "fault")); err != nil {
		t.Fatal(err)
	}
}

func (p *program) appendLine(file, line string) {
	f, err := os.OpenFile(filepath.Join(p.dir, file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintln(f, line)
}

func (p *program) readLines(file string) []string {
	text, _ := os.ReadFile(filepath.Join(p.dir, file))
	return strings.Fields(string(text))
}

func (p *program) send(format string, args ...any) {
	p.out.Lock()
	defer p.out.Unlock()
	fmt.Printf(format, args...)
}

func (p *program) serve() {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), programVariable+"=child")
	if err := child.Start(); err != nil {
		panic(err)
	}
	p.appendLine("processes", fmt.Sprint(child.Process.Pid))
	p.appendLine("processes", fmt.Sprint(os.Getpid()))
	if p.fault() == "does not start" {
		fmt.Fprintln(os.Stderr, "cannot open the database")
		os.Exit(3)
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Params struct {
				Name      string `json:"name"`
				Arguments struct {
					N string `json:"n"`
				} `json:"arguments"`
			} `json:"params"`
		}
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "server/discover":
			p.send(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		case "initialize":
			p.send(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"failing","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			more := ""
			if p.more.Load() {
				more = `,{"name":"more","inputSchema":{"type":"object"}}`
			}
			p.send(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"do","annotations":{"idempotentHint":true},"inputSchema":{"type":"object"}},{"name":"once","inputSchema":{"type":"object"}}%s]}}`+"\n", m.ID, more)
		case "tools/call":
			p.appendLine("calls", m.Params.Name+m.Params.Arguments.N)
			go p.call(string(m.ID))
		default:
			p.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", m.ID)
		}
	}
	os.Exit(0)
}

// call responds to a call with the current fault.
func (p *program) call(id string) {
	done := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"done"}]}}` + "\n"
	switch p.fault() {
	case "slow", "killed", "stopped":
		for p.fault() != "" {
			time.Sleep(5 * time.Millisecond)
		}
		p.send("%s", done)
	case "garbage":
		p.send("%s\n", `{"jsonrpc":"2.0","id":`)
	case "mid-line":
		p.send("%s", done[:20])
		os.Exit(9)
	case "twice":
		p.send("%s%s", done, done)
	case "flood":
		for range 2000 {
			p.send("%s\n", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
		}
		p.send("%s", done)
	case "changes":
		if p.more.CompareAndSwap(false, true) {
			p.send("%s\n", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}
		for p.fault() != "" {
			time.Sleep(5 * time.Millisecond)
		}
		p.send("%s", done)
	default:
		p.send("%s", done)
	}
}

// TestNoFaultOfAProgramOutlivesItByMuch is like TestNoFaultOfAServerOutlivesItByMuch with a
// server on stdio that has a child process. It is not parallel, because it counts the
// resources of the process.
func TestNoFaultOfAProgramOutlivesItByMuch(t *testing.T) {
	p := &program{dir: t.TempDir()}
	c := newCaller(t, fmt.Sprintf("{command: %q, env: {%s: %q}}", os.Args[0], programVariable, p.dir))
	defer c.room.Close()
	for range 2 {
		if err := c.call(0); err != nil {
			t.Fatal(err)
		}
	}
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	const together = 8
	faults := []string{"killed", "stopped", "does not start", "slow", "garbage", "mid-line", "twice", "flood", "changes"}
	for _, fault := range faults {
		p.set(t, fault)
		timeout := 500 * time.Millisecond
		if fault == "killed" || fault == "changes" {
			timeout = time.Minute // these calls may take long
		}
		before := len(p.readLines("calls"))
		failed := make(chan int64, 1)
		current := func() int {
			all := p.readLines("processes")
			pid, _ := strconv.Atoi(all[len(all)-1])
			return pid
		}
		if fault == "does not start" {
			signal(t, current(), syscall.SIGKILL)
		}
		go func() { failed <- countFailures(together, func() error { return c.call(timeout) }) }()
		underWay := func() {
			for end := time.Now().Add(time.Minute); len(p.readLines("calls")) < before+together; runtime.Gosched() {
				if time.Now().After(end) {
					t.Fatalf("%s: %d of %d calls have come", fault, len(p.readLines("calls"))-before, together)
				}
			}
		}
		stopped := 0
		switch fault {
		case "killed":
			underWay()
			p.set(t, "")
			signal(t, current(), syscall.SIGKILL)
		case "stopped":
			underWay()
			stopped = current()
			signal(t, stopped, syscall.SIGSTOP)
		case "changes":
			underWay()
			waitForTool(t, c.room, "up:more") // while eight calls run
			p.set(t, "")
		}
		failures := <-failed
		p.set(t, "")
		if stopped != 0 {
			signal(t, stopped, syscall.SIGCONT)
		}
		took, tries := retryUntilSuccess(t, fault, func() error { return errors.Join(c.call(0), c.call(0)) }) // both tools
		t.Logf("%s: %d of %d calls failed, well %s after its end, at try %d", fault, failures, together, took, tries)
	}
	times := map[string]int{}
	for _, call := range p.readLines("calls") {
		times[call]++
	}
	again := 0
	for call, n := range times {
		if strings.HasPrefix(call, "once") && n > 1 || n > 3 { // an idempotent call is tried at most three times
			t.Errorf("%s was called %d times", call, n)
		}
		if n > 1 {
			again++
		}
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > goroutines+4 || openFiles(t) > files+4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines and %d files before, %d and %d after", goroutines, files, runtime.NumGoroutine(), openFiles(t))
		}
	}
	c.room.Close()
	left := 0
	for _, pid := range p.readLines("processes") {
		n, _ := strconv.Atoi(pid)
		for end := time.Now().Add(time.Minute); syscall.Kill(n, 0) == nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				left++
				break
			}
		}
	}
	if left > 0 {
		t.Errorf("%d processes are left", left)
	}
	t.Logf("%d faults, %d calls, %d idempotent ones again; %d goroutines and %d files before, %d and %d after; %d processes, %d left",
		len(faults), c.made.Load(), again, goroutines, files, runtime.NumGoroutine(), openFiles(t), len(p.readLines("processes")), left)
}

func signal(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

// Package temporal tests the runtime temporal with a real Temporal server, and the built
// programs as its clients and workers. It is a module of its own, because the server is
// large.
package temporal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/temporaltest"
)

// place is a home of Toolroom with its config.
type place struct {
	t    *testing.T
	home string
	file string
}

const secret = "0123456789abcdef0123456789abcdef0123456789abcdef"

// server is the Temporal server of all tests. Each test has a queue of its own.
var server *temporaltest.TestServer

func TestMain(m *testing.M) {
	server = temporaltest.NewServer()
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

func bin(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../bin/toolroom")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: build it first, with make build", err)
	}
	return path
}

// counter is an HTTP service for tools. Each path counts its calls, and returns the count
// once hold, if not nil, is closed.
type counter struct {
	*httptest.Server
	mu    sync.Mutex
	count map[string]int
	hold  chan struct{}
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c := &counter{count: map[string]int{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.count[r.URL.Path]++
		n, hold := c.count[r.URL.Path], c.hold
		c.mu.Unlock()
		if hold != nil && strings.HasPrefix(r.URL.Path, "/slow") {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"n": %d}`, n)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *counter) of(path string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[path]
}

// until waits for the calls of a path.
func (c *counter) until(t *testing.T, path string, n int) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); c.of(path) < n; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s was called %d times, not %d", path, c.of(path), n)
		}
	}
}

// sources returns the config of the counter's tools.
func (c *counter) sources() string {
	text := "egress: {allow: [127.0.0.1]}\nsources:\n  work:\n    http:\n      base_url: " + c.URL + "\n      tools:\n"
	for _, tool := range []string{"first never", "second never", "slow never", "slowsafe safe", "asked never"} {
		name, guarantee, _ := strings.Cut(tool, " ")
		text += "        - {name: " + name + ", method: POST, path: /" + name + ", guarantee: " + guarantee + ", input_schema: {type: object}}\n"
	}
	return text
}

// newPlace creates a home with more added to its config.
func newPlace(t *testing.T, more string) *place {
	t.Helper()
	p := &place{t: t, home: t.TempDir()}
	p.file = filepath.Join(p.home, "toolroom.yaml")
	text := `code:
  runtimes:
    temporal: {address: "` + server.GetFrontendHostPort() + `", namespace: "` + server.GetDefaultNamespace() + `", queue: "` + t.Name() + `", secret: secret://temporal/key}
` + more
	if err := os.WriteFile(p.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.keep("temporal/key", secret)
	return p
}

func (p *place) keep(name, value string) {
	p.t.Helper()
	c := p.command("secret", "set", name)
	c.Stdin = strings.NewReader(value)
	if out, err := c.CombinedOutput(); err != nil {
		p.t.Fatalf("secret set: %v\n%s", err, out)
	}
}

func (p *place) command(args ...string) *exec.Cmd {
	return exec.Command(bin(p.t), append([]string{"--home", p.home, "--config", p.file}, args...)...)
}

// run runs a command to its end.
func (p *place) run(args ...string) (stdout, stderr string, code int) {
	p.t.Helper()
	c := p.command(args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	_ = c.Run()
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// worker starts a worker and waits until it is ready.
func (p *place) worker() *exec.Cmd {
	p.t.Helper()
	c := p.command("temporal", "worker", "--log-level", "error")
	said, err := c.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	ready := make(chan struct{})
	var heard bytes.Buffer
	go func() {
		b := make([]byte, 1024)
		for seen := false; ; {
			n, err := said.Read(b)
			heard.Write(b[:n])
			if !seen && strings.Contains(heard.String(), "The worker is ready") {
				seen = true
				close(ready)
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-ready:
	case <-time.After(60 * time.Second):
		_ = c.Process.Kill()
		_ = c.Wait()
		p.t.Fatalf("the worker did not get ready:\n%s", heard.String())
	}
	return c
}

// result is the part of the output of exec --json that the tests check.
type result struct {
	Status    string          `json:"status"`
	Value     json.RawMessage `json:"value"`
	Error     *struct{ Code, Message string }
	Execution *struct {
		Engine, Isolation, Stdout string
		Calls                     []struct{ Tool, Status string }
	}
}

func (p *place) exec(args ...string) result {
	p.t.Helper()
	out, errs, _ := p.run(append([]string{"exec", "--json", "--runtime", "temporal"}, args...)...)
	var r result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		p.t.Fatalf("%v\n%s\n%s", err, out, errs)
	}
	var value bytes.Buffer
	if json.Compact(&value, r.Value) == nil {
		r.Value = value.Bytes()
	}
	return r
}

// raw returns a client without the secret.
func raw(t *testing.T) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: server.GetFrontendHostPort(), Namespace: server.GetDefaultNamespace()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// newest returns the id of the newest workflow of a queue. Temporal lists it a moment after
// its start.
func newest(t *testing.T, c client.Client, queue string) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		listed, err := c.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: `TaskQueue = "` + queue + `"`})
		if err != nil {
			t.Fatal(err)
		}
		if len(listed.Executions) > 0 {
			return listed.Executions[0].Execution.WorkflowId
		}
	}
	t.Fatal("no workflow was found")
	return ""
}

// activities counts the activities of the newest workflow of a queue by name. It also returns
// the workflow's id and the text of its history.
func activities(t *testing.T, c client.Client) (id string, count map[string]int, text string) {
	t.Helper()
	id = newest(t, c, t.Name())
	count = map[string]int{}
	history := c.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		text += e.String()
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			count[s.ActivityType.Name]++
		}
	}
	return id, count, text
}

func TestAProgramRunsAsAWorkflowAndEachOfItsCallsIsAnActivity(t *testing.T) {
	tools := newCounter(t)
	p := newPlace(t, tools.sources())
	p.worker()
	r := p.exec("-l", "python", `a = tools.work.first()
b = call_tool("work:second", {})
print("between")
a["n"] + b["n"]`)
	if r.Status != "ok" || string(r.Value) != "2" {
		t.Fatalf("%+v %s", r, r.Value)
	}
	if r.Execution == nil || len(r.Execution.Calls) != 2 || !strings.Contains(r.Execution.Stdout, "between") {
		t.Fatalf("execution: %+v", r.Execution)
	}
	_, count, text := activities(t, raw(t))
	if count["toolroom.run"] != 1 || count["toolroom.call"] != 2 {
		t.Errorf("activities: %v", count)
	}
	if strings.Contains(text, "work:first") || strings.Contains(text, "between") {
		t.Error("the history shows what is sealed")
	}
}

func TestAProgramWhoseWorkerIsKilledContinuesOnAnotherAndRepeatsNoCall(t *testing.T) {
	tools := newCounter(t)
	tools.hold = make(chan struct{})
	p := newPlace(t, tools.sources())
	first := p.worker()
	ended := make(chan result, 1)
	go func() {
		ended <- p.exec("-l", "python", "a = tools.work.first()\nb = tools.work.slowsafe()\nc = tools.work.second()\n[a['n'], c['n']]")
	}()
	tools.until(t, "/slowsafe", 1)
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.worker()
	tools.until(t, "/slowsafe", 2) // a safe tool may be called again
	close(tools.hold)
	r := <-ended
	if r.Status != "ok" || string(r.Value) != "[1,1]" {
		t.Fatalf("%+v %+v %s", r, r.Error, r.Value)
	}
	if tools.of("/first") != 1 || tools.of("/second") != 1 {
		t.Errorf("calls: %v", tools.count)
	}
}

func TestACallThatMayNotBeRepeatedIsLostWithItsWorkerAndSaysSo(t *testing.T) {
	tools := newCounter(t)
	tools.hold = make(chan struct{})
	defer close(tools.hold)
	p := newPlace(t, tools.sources())
	first := p.worker()
	ended := make(chan string, 1)
	go func() {
		out, errs, _ := p.run("chain", "--runtime", "temporal", "--json", "work:first", "work:slow", "work:second")
		ended <- out + errs
	}()
	tools.until(t, "/slow", 1)
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.worker()
	said := <-ended
	if !strings.Contains(said, "step 2") || !strings.Contains(said, "it may have had effects") {
		t.Errorf("it said %s", said)
	}
	if tools.of("/first") != 1 || tools.of("/slow") != 1 || tools.of("/second") != 0 {
		t.Errorf("calls: %v", tools.count)
	}
}

func TestAnApprovalOutlivesAWorkerAndPausesTheDeadline(t *testing.T) {
	tools := newCounter(t)
	p := newPlace(t, tools.sources()+"tools: {confirm: [work.asked]}\n")
	// The client that starts it needs no approval: the worker's rules decide.
	first := p.worker()
	ended := make(chan result, 1)
	go func() {
		ended <- p.exec("--timeout", "5s", "-l", "python", "a = tools.work.first()\nb = tools.work.asked()\n[a['n'], b['n']]")
	}()
	id := p.question()
	if err := syscall.Kill(-first.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.worker()
	time.Sleep(6 * time.Second) // longer than the program's timeout
	if _, errs, code := p.run("approve", id); code != 0 {
		t.Fatal(errs)
	}
	r := <-ended
	if r.Status != "ok" || string(r.Value) != "[1,1]" {
		t.Fatalf("%+v %+v %s", r, r.Error, r.Value)
	}
	if tools.of("/first") != 1 || tools.of("/asked") != 1 {
		t.Errorf("calls: %v", tools.count)
	}
}

// question waits for a pending approval.
func (p *place) question() string {
	p.t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		out, _, _ := p.run("approve", "--json")
		if _, rest, ok := strings.Cut(out, `"id": "`); ok {
			id, _, _ := strings.Cut(rest, `"`)
			return id
		}
	}
	p.t.Fatal("there is no pending approval")
	return ""
}

func TestAProgramCatchesADeclinedCall(t *testing.T) {
	tools := newCounter(t)
	p := newPlace(t, tools.sources()+"tools: {confirm: [work.asked]}\n")
	p.worker()
	ended := make(chan result, 1)
	go func() {
		ended <- p.exec("-l", "python", "try:\n    tools.work.asked()\n    r = 'called'\nexcept PermissionError as e:\n    r = 'declined'\nr")
	}()
	if _, errs, code := p.run("approve", p.question(), "--decline"); code != 0 {
		t.Fatal(errs)
	}
	if r := <-ended; string(r.Value) != `"declined"` || tools.of("/asked") != 0 {
		t.Errorf("%+v %s, calls %v", r, r.Value, tools.count)
	}
}

func TestCancellingTheCommandEndsTheWorkflowAndTheCall(t *testing.T) {
	tools := newCounter(t)
	tools.hold = make(chan struct{})
	defer close(tools.hold)
	p := newPlace(t, tools.sources())
	p.worker()
	c := p.command("exec", "--runtime", "temporal", "-l", "python", "tools.work.slow()")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	tools.until(t, "/slow", 1)
	_ = c.Process.Signal(os.Interrupt)
	_ = c.Wait()
	if c.ProcessState.ExitCode() != 130 {
		t.Errorf("exit code %d", c.ProcessState.ExitCode())
	}
	client := raw(t)
	id, _, _ := activities(t, client)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		d, err := client.DescribeWorkflowExecution(t.Context(), id, "")
		if err != nil {
			t.Fatal(err)
		}
		if status := d.WorkflowExecutionInfo.Status; status == enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED {
			return
		} else if time.Now().After(end) {
			t.Fatalf("the workflow is %s", status)
		}
	}
}

// begin starts a workflow with an input, if not nil, sends it an order and waits for its end.
func begin(t *testing.T, c client.Client, id, kind string, input, order any) error {
	t.Helper()
	var inputs []any
	if input != nil {
		inputs = append(inputs, input)
	}
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: strings.Split(t.Name(), "/")[0], WorkflowExecutionTimeout: 10 * time.Second,
	}, kind, inputs...)
	if err != nil {
		t.Fatal(err)
	}
	var ended *serviceerror.NotFound // it refused its input
	if err := c.SignalWorkflow(t.Context(), id, run.GetRunID(), "order", order); err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return run.Get(t.Context(), nil)
}

func TestNothingRunsWithoutTheSecret(t *testing.T) {
	tools := newCounter(t)
	p := newPlace(t, tools.sources())
	p.worker()
	c := raw(t)
	t.Run("in plain", func(t *testing.T) {
		order := map[string]any{"workflow": "plain", "issued": time.Now(), "steps": []any{map[string]any{"tool": "work:first"}}}
		if err := begin(t, c, "plain", "toolroom.chain", order, order); err == nil {
			t.Error("a plain order was carried out")
		}
		if err := begin(t, c, "signal", "toolroom.chain", nil, order); err == nil {
			t.Error("a plain signal was carried out")
		}
	})
	t.Run("a copy of an order", func(t *testing.T) {
		if out, errs, code := p.run("chain", "--runtime", "temporal", "work:second"); code != 0 {
			t.Fatal(out, errs)
		}
		r := record(t, c, newest(t, c, strings.Split(t.Name(), "/")[0]))
		orders := r.signals()["order"]
		if len(orders) != 1 {
			t.Fatalf("%d orders were recorded", len(orders))
		}
		if err := begin(t, c, "copy", "toolroom.chain", nil, orders[0]); err == nil {
			t.Error("a copy of an order was carried out")
		}
	})
	if tools.of("/first") != 0 || tools.of("/second") != 1 {
		t.Errorf("calls: %v", tools.count)
	}
}

func TestWithoutAWorkerTheErrorSaysHowToStartOne(t *testing.T) {
	p := newPlace(t, "")
	r := p.exec("-l", "python", "1")
	if r.Error == nil || r.Error.Code != "sandbox_unavailable" || !strings.Contains(r.Error.Message, "no worker") {
		t.Errorf("%+v %+v", r, r.Error)
	}
}

func TestTheSandboxOfTheWorkerIsAnyOfItsRuntimes(t *testing.T) {
	p := newPlace(t, "")
	p.worker()
	out, errs, code := p.run("exec", "--json", "--runtime", "temporal/process", "-l", "shell", "echo $((40 + 2))")
	if code != 0 || !strings.Contains(out, "42") || !strings.Contains(out, `"engine": "process"`) {
		t.Errorf("%s\n%s", out, errs)
	}
}

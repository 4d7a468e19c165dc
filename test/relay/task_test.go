package relay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const taskCapabilities = `"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`

// taskServer is a server of 2026-07-28 that responds to each call with a task. The test ends
// the task.
type taskServer struct {
	*httptest.Server
	mu       sync.Mutex
	counts   map[string]int    // number of requests by method
	status   string            // of the task
	lastBody map[string]string // the last body by method
}

func newTaskServer(t *testing.T) *taskServer {
	u := &taskServer{counts: map[string]int{}, status: `"status":"working"`, lastBody: map[string]string{}}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

func (u *taskServer) setStatus(status string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.status = status
}

func (u *taskServer) count(method string) (n int, last string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.counts[method], u.lastBody[method]
}

func (u *taskServer) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.counts[m.Method]++
	u.lastBody[m.Method] = string(m.Params)
	w.Header().Set("Content-Type", "application/json")
	result := `{"resultType":"complete"}`
	switch m.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}},"ttlMs":0,"cacheScope":"private"}`
	case "tools/list":
		result = `{"tools":[{"name":"slow","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}]}`
	case "tools/call":
		result = `{"resultType":"task","taskId":"theirs",` + oddTask + `,"status":"working","pollIntervalMs":1}`
	case "tasks/get":
		result = `{"resultType":"complete","taskId":"theirs","pollIntervalMs":1,` + u.status + `}`
	case "tasks/update":
		u.status = `"status":"working"`
	case "tasks/cancel":
		u.status = `"status":"cancelled"`
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// oddTask has unknown members of the server's task.
const oddTask = `"zeta":{"n":9007199254740993,"t":"<é\u003c"},"_meta":{"x/y":[1.50]}`

const completed = `"status":"completed","result":` + oddResult

// begin calls the tool and returns the id of the task in the response.
func (c *client) begin(t *testing.T) string {
	t.Helper()
	result, failed := c.ask(t, "tools/call", "slow", `"name":"slow","arguments":{}`)
	id := taskOf(t, result, failed)
	if id == "theirs" {
		t.Fatal("the client got the server's own task")
	}
	return id
}

// taskOf returns the id of the task in a response.
func taskOf(t *testing.T, result, failed json.RawMessage) string {
	t.Helper()
	var task struct {
		Type   string `json:"resultType"`
		ID     string `json:"taskId"`
		Status string `json:"status"`
	}
	if json.Unmarshal(result, &task) != nil || task.Type != "task" || task.ID == "" || task.Status != "working" {
		t.Fatalf("no task came, but %s%s", result, failed)
	}
	return task.ID
}

type taskState struct {
	Status    string                     `json:"status"`
	Questions map[string]json.RawMessage `json:"inputRequests"`
	Result    json.RawMessage            `json:"result"`
	Error     json.RawMessage            `json:"error"`
}

// pollUntil polls a task until it has a status.
func (c *client) pollUntil(t *testing.T, id, status string) taskState {
	t.Helper()
	for {
		result, failed := c.ask(t, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		var task taskState
		if failed != nil || json.Unmarshal(result, &task) != nil {
			t.Fatalf("tasks/get gave %s%s", result, failed)
		}
		if task.Status == status {
			return task
		}
		if task.Status != "working" && task.Status != "input_required" {
			t.Fatalf("the task is %s", result)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the task is still %s", result)
		}
	}
}

func TestATaskOfAServerIsATaskOfItsClient(t *testing.T) {
	t.Parallel()
	u := newTaskServer(t)
	url, _ := serveAt(t, homeDir(t), u.URL)
	c := &client{url: url, version: modern, can: taskCapabilities}

	id := c.begin(t)
	c.pollUntil(t, id, "working")
	const why = `{"method":"elicitation/create","odd":[1.50,9007199254740993],"params":{"mode":"form","message":"Why?","zeta":"\u003c","requestedSchema":{"type":"object","properties":{"why":{"type":"string"}}}},"alpha":"<é"}`
	u.setStatus(`"status":"input_required","inputRequests":{"why":` + why + `}`)
	if asked := c.pollUntil(t, id, "input_required").Questions; len(asked) != 1 || string(asked["why"]) != why {
		t.Fatalf("the task asks %s", asked)
	}
	const answer = `{"zeta":9007199254740993,"action":"accept","content":{"why":"\u003c<é","odd":1.50},"_meta":{"a/b":1.50}}`
	c.ask(t, "tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{"why":%s}`, id, answer))
	for n, last := u.count("tasks/update"); n == 0 || !strings.Contains(last, `"why":`+answer); n, last = u.count("tasks/update") {
		if n > 0 {
			t.Fatalf("the answer came as %s", last)
		}
		time.Sleep(10 * time.Millisecond)
	}
	u.setStatus(completed)
	if diff := cmp.Diff(oddResult, withoutAdditions(t, c.pollUntil(t, id, "completed").Result)); diff != "" {
		t.Errorf("the result (-sent +received)\n%s", diff)
	}

	u.setStatus(`"status":"working"`)
	id = c.begin(t)
	c.ask(t, "tasks/cancel", id, fmt.Sprintf(`"taskId":%q`, id))
	c.pollUntil(t, id, "cancelled")
	// Nothing waits until the server knows.
	n, last := u.count("tasks/cancel")
	for deadline := time.Now().Add(30 * time.Second); n == 0 && time.Now().Before(deadline); n, last = u.count("tasks/cancel") {
		time.Sleep(10 * time.Millisecond)
	}
	if n != 1 || !strings.Contains(last, `"theirs"`) {
		t.Errorf("the server got %d cancellations: %s", n, last)
	}
}

// The client gets both the first and the latest state of the task.
func TestWhatAServerSaysOfItsTaskReachesTheClientByteForByte(t *testing.T) {
	t.Parallel()
	u := newTaskServer(t)
	url, _ := serveAt(t, homeDir(t), u.URL)
	c := &client{url: url, version: modern, can: taskCapabilities}
	result, failed := c.ask(t, "tools/call", "slow", `"name":"slow","arguments":{}`)
	id := taskOf(t, result, failed)
	wants := func(result json.RawMessage, wants ...string) bool {
		for _, want := range wants {
			if !strings.Contains(string(result), want) {
				return false
			}
		}
		return !strings.Contains(string(result), "theirs")
	}
	if !wants(result, `"zeta":{"n":9007199254740993,"t":"<é\u003c"}`, `"x/y":[1.50]`) {
		t.Errorf("the task came as %s", result)
	}
	u.setStatus(`"status":"working","statusMessage":"half <way>","zeta":2.50,"_meta":{"u/v":9007199254740993}`)
	for {
		result, failed = c.ask(t, "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		if failed != nil {
			t.Fatal(string(failed))
		}
		if wants(result, `"statusMessage":"half <way>"`, `"zeta":2.50`, `"u/v":9007199254740993`) {
			break
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the task still comes as %s", result)
		}
	}
	u.setStatus(`"status":"failed","error":` + oddError)
	if failed := c.pollUntil(t, id, "failed").Error; string(failed) != oddError {
		t.Errorf("the error came as %s", failed)
	}
}

func TestATaskIsFollowedToItsEndForAClientWithoutTasks(t *testing.T) {
	t.Parallel()
	u := newTaskServer(t)
	u.setStatus(completed)
	url, _ := serveAt(t, homeDir(t), u.URL)
	for _, version := range []string{modern, legacy} {
		c := connect(t, url, version)
		result, failed := c.ask(t, "tools/call", "slow", `"name":"slow","arguments":{}`)
		if failed != nil || withoutAdditions(t, result) != oddResult {
			t.Errorf("%s: got %s%s", version, result, failed)
		}
	}
}

func TestATaskOfAServerContinuesAfterARestartOfToolroom(t *testing.T) {
	t.Parallel()
	u := newTaskServer(t)
	home := homeDir(t)
	url, stop := serveAt(t, home, u.URL)
	c := &client{url: url, version: modern, can: taskCapabilities}
	id := c.begin(t)
	stop()
	u.setStatus(completed)
	c.url, _ = serveAt(t, home, u.URL)
	if diff := cmp.Diff(oddResult, withoutAdditions(t, c.pollUntil(t, id, "completed").Result)); diff != "" {
		t.Errorf("the result (-sent +received)\n%s", diff)
	}
	calls, _ := u.count("tools/call")
	cancels, _ := u.count("tasks/cancel")
	if calls != 1 || cancels != 0 {
		t.Errorf("the tool was called %d times, its task cancelled %d times", calls, cancels)
	}
}

package mcp_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

const knowsTasks = `"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}`

func (f *fixture) addTask(id string, support toolroom.TaskSupport, h gofunc.Handler) {
	f.t.Helper()
	tool := toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceGo, Description: id, Task: support}
	f.funcs.Put(gofunc.Func{Tool: tool, Handler: h})
	if err := f.runner.Catalog.Register("go", f.funcs, tool); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) callTask(t *testing.T, subject, tool string) string {
	t.Helper()
	m := f.post(t, subject, "tools/call", tool, `"name":"`+tool+`","arguments":{}`, knowsTasks)
	result, _ := m["result"].(map[string]any)
	id, _ := result["taskId"].(string)
	if result["resultType"] != "task" || id == "" {
		t.Fatalf("no task came: %v", m)
	}
	return id
}

func (f *fixture) onTask(t *testing.T, subject, method, id, more string) map[string]any {
	t.Helper()
	return f.post(t, subject, method, id, `"taskId":"`+id+`"`+more, knowsTasks)
}

// until asks for a task until it has a status.
func (f *fixture) until(t *testing.T, id, status string) map[string]any {
	t.Helper()
	for {
		task, _ := f.onTask(t, "ada", "tasks/get", id, "")["result"].(map[string]any)
		if task["status"] == status {
			return task
		}
		if task["status"] != "working" && task["status"] != "input_required" {
			t.Fatalf("the task is %v", task)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the task is still %v", task)
		}
	}
}

func TestATaskIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.addTask("slow:it", toolroom.TaskOptional, func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	id := f.callTask(t, "ada", "slow__it")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		if m := f.onTask(t, "eve", method, id, ""); m["error"] == nil {
			t.Errorf("%s of somebody else's task gave %v", method, m)
		}
	}
	if task, _ := f.onTask(t, "ada", "tasks/get", id, "")["result"].(map[string]any); task["status"] != "working" {
		t.Errorf("the task is %v", task)
	}
	f.onTask(t, "ada", "tasks/cancel", id, "")
	f.until(t, id, "cancelled")
}

func TestATaskAsksAndEndsWithTheResultOfItsCall(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.addTask("ask:it", toolroom.TaskOptional, func(ctx context.Context, req *source.Request) (*source.Output, error) {
		a, err := source.Elicit(ctx, req.Ask, "name", "Your name?", json.RawMessage(nameForm))
		return &source.Output{Value: a.Content}, err
	})
	id := f.callTask(t, "ada", "ask__it")
	f.until(t, id, "input_required")
	f.onTask(t, "ada", "tasks/update", id, `,"inputResponses":{"name":{"action":"accept","content":{"name":5}},"other":{}}`)
	f.until(t, id, "input_required") // what does not fit is as good as none
	f.onTask(t, "ada", "tasks/update", id, `,"inputResponses":{"name":{"action":"accept","content":{"name":"ada"}}}`)
	result, _ := f.until(t, id, "completed")["result"].(map[string]any)
	if got, _ := result["structuredContent"].(map[string]any); got["name"] != "ada" {
		t.Errorf("the result is %v", result)
	}
}

func TestATaskThatNeedsAPersonAsksThemThroughItsClient(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.addTask("file:delete", toolroom.TaskOptional, func(context.Context, *source.Request) (*source.Output, error) {
		f.deleted.Add(1)
		return &source.Output{}, nil
	})
	id := f.callTask(t, "ada", "file__delete")
	asked, _ := f.until(t, id, "input_required")["inputRequests"].(map[string]any)
	for key := range asked {
		f.onTask(t, "ada", "tasks/update", id, `,"inputResponses":{"`+key+`":{"action":"accept","content":{"approve":true}}}`)
	}
	f.until(t, id, "completed")
	if f.deleted.Load() != 1 || len(asked) != 1 {
		t.Errorf("it ran %d times, after %v", f.deleted.Load(), asked)
	}
}

func TestAToolThatMustBeATaskRefusesAClientThatKnowsNone(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.addTask("must:it", toolroom.TaskRequired, value(`1`))
	m := f.post(t, "ada", "tools/call", "must__it", `"name":"must__it","arguments":{}`, ``)
	if e, _ := m["error"].(map[string]any); e["code"] != float64(-32021) {
		t.Errorf("got %v", m)
	}
}

func TestTheHeaderOfATaskNamesIt(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.addTask("quick:it", toolroom.TaskOptional, value(`1`))
	id := f.callTask(t, "ada", "quick__it")
	m := f.post(t, "ada", "tasks/get", "another", `"taskId":"`+id+`"`, knowsTasks)
	if e, _ := m["error"].(map[string]any); e["code"] != float64(-32020) {
		t.Errorf("got %v", m)
	}
}

// A task may be much older than what the client does with its result: the result taints the
// calls after it is read.
func TestTheResultOfATaskTaintsWhoReadsIt(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	f.runner.Taints = f.store
	f.runner.Trust = func(*toolroom.Tool) run.Trust { return run.Trust{Labels: []string{taint.Untrusted}} }
	f.addTask("read:it", toolroom.TaskOptional, func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Value: json.RawMessage(`"read"`)}, nil
	})
	id := f.callTask(t, "ada", "read__it")
	for {
		job, err := f.store.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == toolroom.JobDone {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(5 * time.Millisecond)
	read := time.Now()
	f.until(t, id, "completed")
	labels, err := f.store.Taints(t.Context(), toolroom.Identity{Subject: "ada"}.Key(), "", read)
	if err != nil || len(labels) != 1 || labels[0].Name != taint.Untrusted {
		t.Errorf("the labels are %v, %v", labels, err)
	}
}

package resume

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

var languageOf = map[string]string{"js": "javascript", "py-lite": "python", "py": "python"}

// execute runs a program in a session over HTTP.
func (f *fixture) execute(session, engine, code string, more ...any) *toolroom.Result {
	f.t.Helper()
	body := map[string]any{"language": languageOf[engine], "engine": engine, "code": code, "session": session}
	for i := 0; i+1 < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	var r toolroom.Result
	f.request(http.MethodPost, "/api/v1/execute", body, &r)
	return &r
}

func (f *fixture) wantValue(r *toolroom.Result, want string) {
	f.t.Helper()
	if r.Error != nil || string(r.Value) != want {
		f.t.Errorf("got %s, %v; want %s", r.Value, r.Error, want)
	}
}

// The engines that keep sessions, with a program for each step.
var sessionSteps = []struct{ engine, begin, add, fail, spin, count string }{
	{"js", "const list = []", "list.push(1)", "list.push(1); null.x", "list.push(1); for (;;) {}", "list.length"},
	{"py-lite", "rows = []", "rows.append(1)", "rows.append(1)\n1 / 0", "rows.append(1)\nwhile True:\n    pass", "len(rows)"},
	{"py", "rows = []", "rows.append(1)", "rows.append(1)\n1 / 0", "rows.append(1)\nwhile True:\n    pass", "len(rows)"},
}

func TestASessionIsTheSameOnEverySurfaceAndInTheNextServer(t *testing.T) {
	for _, s := range sessionSteps {
		t.Run(s.engine, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.requireEngine(s.engine)
			f.configure("code: {sessions: {entries: 2, idle: 24h}}\n")
			f.start()
			f.execute("work", s.engine, s.begin)
			if r := f.execute("work", s.engine, s.fail); r.Error == nil || r.Error.Code != toolroom.CodeExecutionFailed {
				t.Errorf("the program that fails: %+v", r.Error)
			}
			f.wantValue(f.execute("work", s.engine, s.count), "1") // a failed run keeps its state
			if s.engine == "py-lite" {                             // another engine, and another session, runs what this one lacks
				r := f.execute("work", s.engine, "class Rows(list):\n    pass")
				if r.Error == nil || r.Error.Code != toolroom.CodeUnsupported || !strings.Contains(r.Error.Hint, "with engine py") {
					t.Errorf("what the engine cannot run: %+v", r.Error)
				}
			}
			if r := f.execute("work", s.engine, s.spin, "timeout_ms", 700); r.Error == nil {
				t.Error("the program that does not end ended")
			}
			f.wantValue(f.execute("work", s.engine, s.count), "1") // a stopped one is rolled back

			var overlapping sync.WaitGroup
			for range 4 {
				overlapping.Go(func() { f.execute("work", s.engine, s.add) })
			}
			overlapping.Wait()
			f.wantValue(f.execute("work", s.engine, s.count), "5") // none of them was lost

			f.kill()
			f.start()
			f.wantValue(f.execute("work", s.engine, s.count), "5") // it survives the server
			var made map[string]any
			if status := f.request(http.MethodPost, "/api/v1/sessions/work/fork?to=try", nil, &made); status != http.StatusCreated {
				t.Errorf("fork: %d", status)
			}
			f.execute("try", s.engine, s.add)
			f.wantValue(f.execute("try", s.engine, s.count), "6")
			f.wantValue(f.execute("work", s.engine, s.count), "5")
			third := f.execute("third", s.engine, s.begin)
			if third.Error == nil || third.Error.Code != toolroom.CodeResourceLimit || third.Error.Hint == "" {
				t.Errorf("one session too many: %+v", third.Error)
			}
			f.delete("/api/v1/sessions/try")
			if exported := f.export("work"); f.importSession("copy", exported) != http.StatusCreated {
				t.Error("it cannot be imported")
			}
			f.wantValue(f.execute("copy", s.engine, s.count), "5")

			// Its owner finds the same session on every surface.
			over, _ := f.tool("execute_code", object{"language": languageOf[s.engine], "code": s.add + "\n" + s.count, "session": "copy"})["structuredContent"].(object)
			if over["value"] != 6.0 {
				t.Errorf("over MCP: %v", over)
			}
			if out, errs, code := f.toolroom("exec", "-l", languageOf[s.engine], "--session", "copy", s.count); code != 0 || strings.TrimSpace(out) != "6" {
				t.Errorf("on the command line: %d %s%s", code, out, errs)
			}
		})
	}
}

func TestAnIdleSessionIsDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.configure("code: {sessions: {idle: 2s}}\n")
	f.start()
	s := sessionSteps[0]
	f.execute("work", s.engine, s.begin)
	var list struct{ Sessions []struct{ Expires time.Time } }
	f.until("the session is gone", func() bool {
		f.request(http.MethodGet, "/api/v1/sessions", nil, &list)
		return len(list.Sessions) == 0
	})
	if r := f.execute("work", s.engine, s.count); r.Error == nil {
		t.Errorf("its variables are still there: %s", r.Value)
	}
}

// send sends bytes as they are.
func (f *fixture) send(method, path string, body []byte) (int, []byte) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, bytes.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return res.StatusCode, answer
}

func (f *fixture) delete(path string) { f.send(http.MethodDelete, path, nil) }

func (f *fixture) export(id string) []byte {
	_, file := f.send(http.MethodGet, "/api/v1/sessions/"+id+"/export", nil)
	return file
}

func (f *fixture) importSession(id string, file []byte) int {
	status, _ := f.send(http.MethodPost, "/api/v1/sessions?id="+id, file)
	return status
}

// Only the operator may run programs in the server without a sandbox.
func TestNoProgramOfACallerRunsOnTheTrustedEngine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.start()
	for _, key := range []string{"engine", "runtime"} {
		var r toolroom.Result
		f.request(http.MethodPost, "/api/v1/execute", map[string]any{"language": "javascript", "code": "return 1", key: "go-trusted"}, &r)
		if r.Error == nil || r.Error.Code != toolroom.CodeInvalidArguments {
			t.Errorf("HTTP, %s: %s, %v", key, r.Value, r.Error)
		}
		if out, _, code := f.toolroom("exec", "-l", "js", "--"+key, "go-trusted", "return 1"); code != 5 {
			t.Errorf("exec, %s: %d %s", key, code, out)
		}
	}
}

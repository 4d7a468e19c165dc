package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

func TestEachCodeHasItsStatusAndTheWholeResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("fail:with", func(_ context.Context, req *source.Request) (*source.Output, error) {
		var in struct{ Code toolroom.Code }
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return nil, err
		}
		e := toolroom.Errorf(in.Code, "as asked")
		e.RetryAfter = 1500 * time.Millisecond
		return nil, e.WithHint("ask for another")
	})
	for _, code := range toolroom.Codes() {
		t.Run(string(code), func(t *testing.T) {
			r := b.post("/tools/fail:with/call", fmt.Sprintf(`{"arguments": {"code": %q}}`, code))
			if want := code.Info().HTTPStatus; r.status != want {
				t.Errorf("the status is %d, not %d", r.status, want)
			}
			var result toolroom.Result
			r.into(t, &result)
			if result.Error == nil || result.Error.Code != code || result.Error.Hint == "" || result.Tool != "fail:with" || result.Call == "" || result.Status != code.Info().Status {
				t.Errorf("the result is not whole: %s", r.body)
			}
			if got := r.header.Get("Retry-After"); got != "2" {
				t.Errorf("Retry-After is %q, not 2", got)
			}
		})
	}
}

func TestArgumentsAndValuesPassUnchanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, args := range map[string]string{
		"integers beyond 2^53":  `{"n":12345678901234567890123,"m":9007199254740993}`,
		"numbers beyond double": `{"n":1e400,"m":0.10000000000000000000000001}`,
		"text as it is written": `{"s":"<a> & ü \u2028"}`,
		"the order of members":  `{"z":1,"a":2}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"/tools/echo:it/call", "/call"} {
				r := b.post(path, `{"tool": "echo.it", "arguments": `+args+`}`)
				if path != "/call" {
					r = b.post(path, `{"arguments": `+args+`}`)
				}
				if r.status != http.StatusOK || !strings.Contains(r.body, `"value":`+args) {
					t.Errorf("%s: %d %s", path, r.status, r.body)
				}
			}
		})
	}
}

func TestMistakesInArgumentsAreForTheRunnerToFind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, args := range map[string]string{
		"a key twice":     `{"a":1,"a":2}`,
		"invalid UTF-8":   "{\"a\":\"\xff\"}",
		"too deep":        strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100),
		"not an object":   `[1]`,
		"a text, not one": `"{}"`,
	} {
		t.Run(name, func(t *testing.T) {
			r := b.post("/tools/echo:it/call", `{"arguments": `+args+`}`)
			var result toolroom.Result
			r.into(t, &result)
			if r.status != http.StatusUnprocessableEntity || result.Error == nil || result.Error.Phase != toolroom.PhaseValidateInput {
				t.Fatalf("%d %s", r.status, r.body)
			}
			if _, err := b.memory.Receipt(t.Context(), result.Call); err != nil {
				t.Errorf("there is no receipt: %v", err)
			}
		})
	}
}

func TestABodyThatCannotBeUsedIsAProblemAndCallsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"nothing":             {"", 422, "no body"},
		"not JSON":            {`{"arguments": `, 422, "invalid request body"},
		"a member misspelled": {`{"argumnets": {}}`, 422, "argumnets"},
		"two documents":       {`{} {}`, 422, "text after"},
		"a negative timeout":  {`{"timeout_ms": -1}`, 422, "negative"},
		"too large":           {`{"session": "` + strings.Repeat("x", 16<<20) + `"}`, 413, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.post("/tools/echo:it/call", c.body)
			if r.status != c.status || !strings.Contains(r.body, c.says) || r.header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%d %v %s", r.status, r.header, r.body)
			}
		})
	}
	if n := len(b.memory.receipts); n != 0 {
		t.Errorf("%d calls were made", n)
	}
}

func TestAnIdempotencyKeyReturnsTheFirstResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var n atomic.Int64
	b.add("count:up", func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Value: json.RawMessage(fmt.Sprint(n.Add(1)))}, nil
	})
	for range 2 {
		r := b.post("/tools/count:up/call", `{}`, "Idempotency-Key", "k1")
		var result toolroom.Result
		r.into(t, &result)
		if string(result.Value) != "1" {
			t.Errorf("the value is %s, not 1", result.Value)
		}
	}
	if r := b.post("/tools/count:up/call", `{"arguments": {"other": 1}}`, "Idempotency-Key", "k1"); r.status != http.StatusConflict {
		t.Errorf("other arguments under the same key: %d %s", r.status, r.body)
	}
	if r := b.post("/tools/count:up/call", `{}`, "Idempotency-Key", strings.Repeat("k", 257)); r.status != http.StatusUnprocessableEntity {
		t.Errorf("a key that is too long: %d", r.status)
	}
}

func TestAStreamHasAllEventsInOrderAndEndsWithTheResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("talk:it", func(_ context.Context, req *source.Request) (*source.Output, error) {
		for i := range 20 {
			req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage(fmt.Sprint(i))})
		}
		req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: 1, Total: 2}})
		return &source.Output{Value: json.RawMessage("9007199254740993")}, nil
	})
	for _, how := range [][]string{{"/tools/talk:it/call?stream=true"}, {"/tools/talk:it/call", "Accept", "text/event-stream"}} {
		res := b.open(t.Context(), "", http.MethodPost, "/api/v1"+how[0], `{}`, how[1:]...)
		if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Fatalf("the content type is %q", got)
		}
		list := events(t, res.Body, nil)
		if got, want := kinds(list), "called"+strings.Repeat(" chunk", 20)+" progress done"; got != want {
			t.Fatalf("the events are %s", got)
		}
		for i, e := range list[1:21] {
			if string(e.Chunk) != fmt.Sprint(i) {
				t.Errorf("chunk %d is %s", i, e.Chunk)
			}
		}
		if last := list[len(list)-1]; last.Result == nil || string(last.Result.Value) != "9007199254740993" {
			t.Errorf("the last event has no result: %+v", last)
		}
	}
}

func TestAStreamOfACallThatFailsEndsWithAnError(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	res := b.open(t.Context(), "", http.MethodPost, "/api/v1/call?stream=true", `{"tool": "no:such"}`)
	list := events(t, res.Body, nil)
	last := list[len(list)-1]
	if last.Kind != toolroom.EventError || last.Result.Error.Code != toolroom.CodeToolNotFound {
		t.Errorf("the stream ended with %+v", last)
	}
}

// hanging is a tool that waits for its end, and tells of it.
func hanging() (h gofunc.Handler, ended chan struct{}) {
	ended = make(chan struct{})
	return func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}, ended
}

func TestAClientThatGoesAwayEndsTheWork(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?stream=true"} {
		t.Run("call"+query, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			started := make(chan struct{})
			hang, ended := hanging()
			b.add("hang:on", func(ctx context.Context, req *source.Request) (*source.Output, error) {
				close(started)
				return hang(ctx, req)
			})
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+"/api/v1/tools/hang:on/call"+query, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			gone := make(chan struct{})
			go func() {
				defer close(gone)
				if res, err := http.DefaultClient.Do(req); err == nil {
					<-ctx.Done()
					res.Body.Close()
				}
			}()
			<-started
			cancel()
			<-ended
			<-gone
		})
	}
}

func TestACallUnderWayIsCancelledByItsOwnerOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan struct{})
	hang, ended := hanging()
	b.add("hang:on", func(ctx context.Context, req *source.Request) (*source.Output, error) {
		close(started)
		return hang(ctx, req)
	})
	res := b.open(t.Context(), "alice", http.MethodPost, "/api/v1/tools/hang:on/call?stream=true", `{}`)
	list := events(t, res.Body, func(e toolroom.Event) bool {
		if e.Kind != toolroom.EventCalled {
			return e.Final()
		}
		<-started // a call that is cancelled before never reaches its tool
		path := "/api/v1/calls/" + e.Call
		var record struct{ State string }
		b.as("alice", http.MethodGet, path, "").into(t, &record)
		if record.State != "running" {
			t.Errorf("the call is %q", record.State)
		}
		if r := b.as("bob", http.MethodPost, path+"/cancel", ""); r.status != http.StatusNotFound {
			t.Errorf("somebody else's cancel: %d %s", r.status, r.body)
		}
		if r := b.as("alice", http.MethodPost, path+"/cancel", ""); r.status != http.StatusAccepted {
			t.Errorf("the owner's cancel: %d %s", r.status, r.body)
		}
		return false
	})
	<-ended
	if _, err := io.Copy(io.Discard, res.Body); err != nil { // its end is that of the call
		t.Error(err)
	}
	last := list[len(list)-1]
	if last.Result == nil || last.Result.Status != toolroom.StatusCancelled {
		t.Errorf("the stream ended with %+v", last)
	}
	if r := b.as("alice", http.MethodPost, "/api/v1/calls/"+last.Call+"/cancel", ""); r.status != http.StatusConflict {
		t.Errorf("a cancel after the end: %d", r.status)
	}
}

func TestAnAsynchronousCallIsAcceptedFollowedAndRead(t *testing.T) {
	t.Parallel()
	for name, how := range map[string][]string{
		"by query":      {"/tools/wait:it/call?async=true"},
		"by preference": {"/tools/wait:it/call", "Prefer", "wait=1, respond-async"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			release := make(chan struct{})
			b.add("wait:it", func(context.Context, *source.Request) (*source.Output, error) {
				<-release
				return &source.Output{Value: json.RawMessage("9007199254740993")}, nil
			})
			r := b.as("alice", http.MethodPost, "/api/v1"+how[0], `{}`, how[1:]...)
			var accepted struct{ ID, State string }
			r.into(t, &accepted)
			location := r.header.Get("Location")
			if r.status != http.StatusAccepted || location != "/api/v1/calls/"+accepted.ID || accepted.State != "queued" {
				t.Fatalf("%d %v %s", r.status, r.header, r.body)
			}
			if r := b.as("bob", http.MethodGet, location, ""); r.status != http.StatusNotFound {
				t.Errorf("somebody else sees the call: %d", r.status)
			}
			res := b.open(t.Context(), "alice", http.MethodGet, location+"/events", "")
			close(release)
			list := events(t, res.Body, nil)
			if last := list[len(list)-1]; last.Kind != toolroom.EventDone {
				t.Fatalf("the events are %s", kinds(list))
			}
			// The events may end a moment before the result is stored.
			again := b.open(t.Context(), "alice", http.MethodGet, location+"/events", "")
			events(t, again.Body, nil)
			var record struct {
				State   toolroom.JobState
				Result  *toolroom.Result
				Receipt json.RawMessage
			}
			for record.State != toolroom.JobDone {
				b.as("alice", http.MethodGet, location, "").into(t, &record)
			}
			if record.Result == nil || string(record.Result.Value) != "9007199254740993" || record.Receipt == nil {
				t.Errorf("the record is not whole: %+v", record)
			}
		})
	}
}

func TestACallIsFollowedByTheBeginningOfItsID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release := make(chan struct{})
	b.add("wait:it", func(_ context.Context, req *source.Request) (*source.Output, error) {
		<-release
		req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage("1")})
		return &source.Output{Value: json.RawMessage("2")}, nil
	})
	location := b.as("alice", http.MethodPost, "/api/v1/tools/wait:it/call?async=true", `{}`).header.Get("Location")
	res := b.open(t.Context(), "alice", http.MethodGet, location[:len(location)-1]+"/events", "")
	close(release)
	if list := events(t, res.Body, nil); !strings.HasSuffix(kinds(list), "chunk done") {
		t.Errorf("the events are %q", kinds(list))
	}
}

func TestAJobThatRunsIsCancelled(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan struct{})
	hang, ended := hanging()
	b.add("hang:on", func(ctx context.Context, req *source.Request) (*source.Output, error) {
		close(started)
		return hang(ctx, req)
	})
	location := b.post("/tools/hang:on/call?async=true", `{}`).header.Get("Location")
	<-started
	if r := b.as("", http.MethodPost, location+"/cancel", ""); r.status != http.StatusAccepted {
		t.Errorf("%d %s", r.status, r.body)
	}
	<-ended
}

func TestAChainAndABatchAnswerWithAllTheirResults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add("fail:it", func(context.Context, *source.Request) (*source.Output, error) {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "broken")
	})
	r := b.post("/chain", `{"steps": [{"tool": "echo:it", "arguments": {"n": 9007199254740993}}, {"tool": "fail:it"}]}`)
	var chain toolroom.ChainResult
	r.into(t, &chain)
	if r.status != http.StatusBadGateway || chain.Failed == nil || *chain.Failed != 1 || len(chain.Steps) != 2 || !strings.Contains(r.body, "9007199254740993") {
		t.Errorf("chain: %d %s", r.status, r.body)
	}
	r = b.post("/batch", `{"parallel": 2, "calls": [{"tool": "echo:it", "arguments": {"i": 1}}, {"tool": "fail:it"}, {"tool": "echo:it", "arguments": {"i": 3}}]}`)
	var batch struct{ Results []toolroom.Result }
	r.into(t, &batch)
	if r.status != http.StatusOK || len(batch.Results) != 3 || batch.Results[1].Error == nil || string(batch.Results[2].Value) != `{"i":3}` {
		t.Errorf("batch: %d %s", r.status, r.body)
	}
	if r := b.post("/batch", `{"parallel": 51, "calls": []}`); r.status != http.StatusUnprocessableEntity {
		t.Errorf("too much at once: %d", r.status)
	}
}

func TestManyCallersAtOnceEachGetTheirOwnResult(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			r := b.post("/tools/echo:it/call", fmt.Sprintf(`{"arguments": {"i": %d}}`, i))
			if want := fmt.Sprintf(`"value":{"i":%d}`, i); r.status != http.StatusOK || !strings.Contains(r.body, want) {
				t.Errorf("caller %d got %d %s", i, r.status, r.body)
			}
		})
		wg.Go(func() {
			if r := b.get("/openapi.json"); r.status != http.StatusOK {
				t.Errorf("the document: %d", r.status)
			}
		})
	}
	wg.Wait()
}

func TestHostilePathsAreRefusedWithAReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"%00", "..%2f..%2fetc%2fpasswd", "a%20b", "%ff", strings.Repeat("x", 5000), "a:b:c:d", "%3Cscript%3E", "@", "mcp:%2F"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			path := "/api/v1/tools/" + id
			if method == http.MethodPost {
				path += "/call"
			}
			r := b.as("", method, path, "{}")
			if code := r.code(t); r.status != code.Info().HTTPStatus || code != toolroom.CodeInvalidID && code != toolroom.CodeToolNotFound {
				t.Errorf("%s %.40s: %d %s", method, id, r.status, r.body)
			}
		}
		for _, path := range []string{"/calls/", "/approvals/", "/artifacts/"} {
			if r := b.get(path + id); r.status != http.StatusNotFound {
				t.Errorf("GET %s%.40s: %d %s", path, id, r.status, r.body)
			}
		}
	}
	if r := b.post("/tools/mcp:echo%2Fit/call", `{}`); r.status != http.StatusOK {
		t.Errorf("an id with a slash: %d %s", r.status, r.body)
	}
}

package surface

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/internal/token"
)

const revokedConfig = `
server: {listen: "127.0.0.1:0"}
builtin: {off: true}
tools: {confirm: ["gate.unlock"]}
approvals: {approvers: [operator, caller]}
`

// intruder is somebody with a token of ann's, which is taken away while things run on its
// behalf.
type intruder struct {
	*fixture
	token, id string
	// ticks counts the calls of notes:tick. Each reports in began, and waits until stop is
	// closed if hold is set.
	ticks atomic.Int64
	hold  atomic.Bool
	began chan struct{}
	stop  chan struct{}
}

func newIntruder(t *testing.T, ttl time.Duration) *intruder {
	t.Helper()
	in := &intruder{fixture: serveWith(t, revokedConfig), began: make(chan struct{}, 1000), stop: make(chan struct{})}
	in.hold.Store(true)
	in.token, in.id = in.issue(t, ttl)
	register := func(id string, do func(context.Context, struct{}) (string, error)) {
		if err := app.RegisterTool(in.room, toolroom.Tool{ID: toolroom.MustParseID(id), Description: "A tool of the test."}, do); err != nil {
			t.Fatal(err)
		}
	}
	register("notes:tick", func(ctx context.Context, _ struct{}) (string, error) {
		in.ticks.Add(1)
		in.began <- struct{}{}
		if in.hold.Load() {
			select {
			case <-in.stop:
			case <-ctx.Done():
			}
		}
		return "ticked", nil
	})
	register("notes:loop", func(ctx context.Context, _ struct{}) (string, error) {
		for range 3 {
			in.room.Run(ctx, toolroom.Call{Tool: "notes:tick"})
		}
		return "looped", nil
	})
	return in
}

func (in *intruder) issue(t *testing.T, ttl time.Duration) (plaintext, id string) {
	t.Helper()
	plaintext, made, err := token.Create(t.Context(), in.room.Parts().Tokens, token.Options{Subject: "ann", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return plaintext, made.ID
}

func (in *intruder) revoke(t *testing.T) {
	t.Helper()
	if err := in.room.Parts().Tokens.RevokeToken(t.Context(), in.id, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// request sends a request with a token and returns what it is answered.
func (in *intruder) request(t *testing.T, bearer, path string, body any) (int, string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.url+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(res.Body); err != nil {
		t.Error(err)
	}
	return res.StatusCode, answer.String()
}

// requestDuring sends a request, waits until it has called notes:tick, does then what takes the token
// away, lets the call go on, and returns the answer.
func (in *intruder) requestDuring(t *testing.T, path string, body any, then func()) (status int, answer string) {
	t.Helper()
	var asking sync.WaitGroup
	asking.Go(func() { status, answer = in.request(t, in.token, path, body) })
	select {
	case <-in.began:
	case <-time.After(30 * time.Second):
		t.Error("it calls nothing")
	}
	then()
	close(in.stop)
	asking.Wait()
	return status, answer
}

// wantEnd fails the test unless an answer says how the token ended.
func wantEnd(t *testing.T, answer, end string) {
	t.Helper()
	if !strings.Contains(answer, `"code":"unauthenticated"`) || !strings.Contains(answer, "the token of ann "+end) {
		t.Errorf("it is answered %s", answer)
	}
}

// wantCodes fails the test unless the receipts of a tool have these codes, in any order: calls
// that run at the same time end in any.
func (in *intruder) wantCodes(t *testing.T, tool string, codes ...toolroom.Code) {
	t.Helper()
	list, err := in.room.Receipts(t.Context(), toolroom.ReceiptQuery{Tool: tool, AfterSeq: toolroom.ReceiptsFromStart})
	if err != nil {
		t.Fatal(err)
	}
	var got []toolroom.Code
	for _, r := range list {
		code := toolroom.Code("")
		if r.Error != nil {
			code = r.Error.Code
		}
		got = append(got, code)
		if code == toolroom.CodeUnauthenticated && r.Status != toolroom.StatusDenied {
			t.Errorf("the receipt of %s has the status %s: %v", tool, r.Status, r.Error)
		}
	}
	slices.Sort(got)
	slices.Sort(codes)
	if !slices.Equal(got, codes) {
		t.Errorf("the receipts of %s have the codes %q, want %q", tool, got, codes)
	}
}

const loop = `for (let i = 0; i < 1000; i++) { try { await call_tool("notes:tick", {}) } catch (e) {} } return "survived"`

func program(code string) toolroom.Args { return toolroom.Args{"language": "javascript", "code": code} }

func TestAProgramEndsWithItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	status, answer := in.requestDuring(t, "/api/v1/execute", program(loop), func() {
		in.revoke(t)
		if status, answer := in.request(t, in.token, "/api/v1/call", toolroom.Args{"tool": "notes:tick"}); status != http.StatusUnauthorized || !strings.Contains(answer, "the bearer token is not valid") {
			t.Errorf("a new call is answered %d %s", status, answer)
		}
		// A new token of the same caller is for new calls.
		again, _ := in.issue(t, 0)
		in.hold.Store(false)
		if status, answer := in.request(t, again, "/api/v1/call", toolroom.Args{"tool": "notes:tick"}); status != http.StatusOK {
			t.Errorf("the new token is answered %d %s", status, answer)
		}
	})
	wantEnd(t, answer, "was revoked")
	if status != http.StatusUnauthorized || in.ticks.Load() != 2 {
		t.Errorf("%d, after %d calls of a program and another", status, in.ticks.Load())
	}
	in.wantCodes(t, "code:execute", toolroom.CodeUnauthenticated)
}

func TestAProgramEndsWhenItsTokenExpires(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	in := newIntruder(t, ttl)
	expired := time.After(ttl)
	_, answer := in.requestDuring(t, "/api/v1/execute", program(loop), func() { <-expired })
	wantEnd(t, answer, "has expired")
	if in.ticks.Load() != 1 {
		t.Errorf("it made %d calls", in.ticks.Load())
	}
	if status, answer := in.request(t, in.token, "/api/v1/call", toolroom.Args{"tool": "notes:tick"}); status != http.StatusUnauthorized || !strings.Contains(answer, "the token has expired") {
		t.Errorf("a new call is answered %d %s", status, answer)
	}
}

func TestAProgramEndsWhenAnotherProcessRevokesItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	store, err := sqlite.Open(t.Context(), filepath.Join(in.dir, "home", "toolroom.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var revoked time.Time
	_, answer := in.requestDuring(t, "/api/v1/execute", program(strings.Replace(loop, "{ try", `{ await new Promise(done => setTimeout(done, 20)); try`, 1)), func() {
		if err := store.RevokeToken(t.Context(), in.id, time.Now()); err != nil {
			t.Error(err)
		}
		revoked = time.Now()
		in.hold.Store(false)
	})
	wantEnd(t, answer, "was revoked")
	if took := time.Since(revoked); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAToolsOwnCallsEndWithTheToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	status, answer := in.requestDuring(t, "/api/v1/call", toolroom.Args{"tool": "notes:loop"}, func() { in.revoke(t) })
	if status != http.StatusOK || in.ticks.Load() != 1 {
		t.Errorf("%d %s, after %d calls", status, answer, in.ticks.Load())
	}
	in.wantCodes(t, "notes:tick", "", toolroom.CodeUnauthenticated, toolroom.CodeUnauthenticated)
	in.wantCodes(t, "notes:loop", "")
}

func TestAChainEndsWithItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	_, answer := in.requestDuring(t, "/api/v1/chain", toolroom.Args{"steps": []toolroom.Step{{Tool: "notes:tick"}, {Tool: "notes:tick", ContinueOnError: true}, {Tool: "notes:tick"}}},
		func() { in.revoke(t) })
	wantEnd(t, answer, "was revoked")
	in.wantCodes(t, "notes:tick", "", toolroom.CodeUnauthenticated, toolroom.CodeUnauthenticated)
}

// A call was decided while its token was valid, and waits for its turn or for another attempt.
func TestACallThatWaitsDoesNotRunWithoutItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	register := func(tool toolroom.Tool, do func(context.Context, command) (string, error)) {
		if err := app.RegisterTool(in.room, tool, do); err != nil {
			t.Fatal(err)
		}
	}
	hold := func() {
		in.room.Run(t.Context(), toolroom.Call{Tool: "notes:single", Arguments: json.RawMessage(`{"command":"hold"}`)})
	}
	var ran atomic.Int64
	register(toolroom.Tool{ID: toolroom.MustParseID("notes:single"), Description: "A tool of the test.", Concurrency: 1}, func(_ context.Context, c command) (string, error) {
		if c.Command == "hold" {
			in.began <- struct{}{}
			<-in.stop
		} else {
			ran.Add(1)
		}
		return "done", nil
	})
	attempts := 0
	register(toolroom.Tool{ID: toolroom.MustParseID("notes:flaky"), Description: "A tool of the test.", Hints: toolroom.Hints{ReadOnly: new(true)}}, func(_ context.Context, _ command) (string, error) {
		if attempts++; attempts == 1 {
			in.revoke(t)
		}
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "down")
		e.Retryable = true
		return "", e
	})
	var work sync.WaitGroup
	work.Go(hold)
	<-in.began
	var waited string
	work.Go(func() {
		_, waited = in.request(t, in.token, "/api/v1/call", toolroom.Args{"tool": "notes:single", "arguments": toolroom.Args{"command": "wait"}})
	})
	for deadline := time.Now().Add(30 * time.Second); in.room.Parts().Runner.Running() < 2; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second call does not wait")
		}
	}
	_, again := in.request(t, in.token, "/api/v1/call", toolroom.Args{"tool": "notes:flaky", "arguments": toolroom.Args{"command": ""}})
	wantEnd(t, again, "was revoked")
	if attempts != 1 {
		t.Errorf("the tool was tried %d times", attempts)
	}
	close(in.stop)
	work.Wait()
	wantEnd(t, waited, "was revoked")
	if ran.Load() != 0 {
		t.Error("the call that waited for its turn ran")
	}
	in.wantCodes(t, "notes:single", "", toolroom.CodeUnauthenticated)
}

func TestABackgroundCallIsNotBegunWithoutItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	for range run.DefaultParallel { // nobody works on the next one
		if _, err := in.room.Submit(t.Context(), toolroom.Call{Tool: "notes:tick"}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-in.began:
		case <-time.After(30 * time.Second):
			t.Fatal("a background call does not begin")
		}
	}
	status, answer := in.request(t, in.token, "/api/v1/call?async=true", toolroom.Args{"tool": "notes:tick"})
	var accepted struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &accepted); status != http.StatusAccepted || err != nil {
		t.Fatal(status, answer, err)
	}
	in.revoke(t)
	close(in.stop)
	job := in.waitForJob(t, accepted.ID)
	if job.Result.Status != toolroom.StatusDenied || job.Result.Effects != toolroom.EffectsNone || !strings.Contains(job.Result.Error.Message, "the token of ann was revoked") {
		t.Errorf("it ends with %s, effects %s: %v", job.Result.Status, job.Result.Effects, job.Result.Error)
	}
	if in.ticks.Load() != run.DefaultParallel {
		t.Errorf("%d calls", in.ticks.Load())
	}
}

// waitForJob waits for the end of a job.
func (in *intruder) waitForJob(t *testing.T, id string) *run.Job {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		job, err := in.room.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if job.State == toolroom.JobDone {
			return job
		}
	}
	t.Fatalf("%s does not end", id)
	return nil
}

func TestAnApprovedProgramDoesNotGoOnWithoutItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	in.hold.Store(false)
	code := `let end = "unlocked"; try { await call_tool("gate:unlock", {command: ""}) } catch (e) { end = e.message } await call_tool("notes:tick", {}); return end`
	_, answer := in.request(t, in.token, "/api/v1/call", toolroom.Args{"tool": "code:execute", "arguments": program(code), "no_wait": true})
	var waits struct {
		Error struct {
			Details struct{ Run, Approval string }
		}
	}
	if err := json.Unmarshal([]byte(answer), &waits); err != nil || waits.Error.Details.Run == "" {
		t.Fatalf("it is answered %s, %v", answer, err)
	}
	in.revoke(t)
	in.approve(t, waits.Error.Details.Approval)
	job := in.waitForJob(t, waits.Error.Details.Run)
	if job.Result.Status != toolroom.StatusDenied || job.Result.Effects != toolroom.EffectsUnknown || !strings.Contains(job.Result.Error.Message, "the token of ann was revoked") {
		t.Errorf("it ends with %s, effects %s: %v", job.Result.Status, job.Result.Effects, job.Result.Error)
	}
	if in.ticks.Load() != 0 {
		t.Error("it went on")
	}
	in.wantCodes(t, "gate:unlock", toolroom.CodeApprovalRequired)
}

func (in *intruder) approve(t *testing.T, id string) {
	t.Helper()
	if _, err := in.room.Answer(t.Context(), id, toolroom.Answer{Approve: true, By: "boss"}); err != nil {
		t.Error(err)
	}
}

// waitForApproval waits for the question about a call of gate:unlock, and returns its id.
func (in *intruder) waitForApproval(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		pending, err := in.room.Approvals(t.Context(), toolroom.ApprovalPending)
		if err != nil {
			t.Fatal(err)
		}
		if len(pending) > 0 {
			return pending[0].ID
		}
	}
	t.Fatal("nobody is asked")
	return ""
}

func TestAnApprovedCallDoesNotGoOnWithoutItsToken(t *testing.T) {
	t.Parallel()
	in := newIntruder(t, 0)
	var answer string
	var asking sync.WaitGroup
	asking.Go(func() {
		_, answer = in.request(t, in.token, "/api/v1/call", toolroom.Args{"tool": "gate:unlock", "arguments": toolroom.Args{"command": ""}})
	})
	id := in.waitForApproval(t)
	in.revoke(t)
	in.approve(t, id)
	asking.Wait()
	wantEnd(t, answer, "was revoked")
	in.wantCodes(t, "gate:unlock", toolroom.CodeUnauthenticated)
	if a, err := in.room.Approval(t.Context(), id); err != nil || !a.Used.IsZero() {
		t.Errorf("its approval was used: %+v, %v", a, err)
	}
}

// bearerTransport adds a token to every request.
type bearerTransport string

func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// A client is asked for its user's consent, and its token is revoked before the answer. The
// answer is refused, and the call does not run even if somebody else consents.
func TestAnElicitationDoesNotOutliveItsToken(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			in := newIntruder(t, 0)
			asked, consent := make(chan struct{}), make(chan struct{})
			client := mcp.NewClient(&mcp.Implementation{Name: "surface", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(ctx context.Context, _ *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					close(asked)
					<-consent
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
				},
			})
			transport := &mcp.StreamableClientTransport{Endpoint: in.url + "/mcp", HTTPClient: &http.Client{Transport: bearerTransport(in.token)}}
			session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			var result *mcp.CallToolResult
			var failed error
			var calling sync.WaitGroup
			calling.Go(func() {
				result, failed = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "gate__unlock", Arguments: map[string]any{"command": ""}})
			})
			select {
			case <-asked:
			case <-time.After(30 * time.Second):
				t.Fatal("nobody is asked")
			}
			id := in.waitForApproval(t)
			in.revoke(t)
			close(consent)
			time.Sleep(100 * time.Millisecond) // the answer arrives, if it does
			if a, err := in.room.Approval(t.Context(), id); err != nil || a.State != toolroom.ApprovalPending {
				t.Errorf("the answer of a revoked token counts: %+v, %v", a, err)
			}
			in.approve(t, id)
			calling.Wait()
			if failed == nil && !result.IsError {
				t.Errorf("the call is answered %+v", result)
			}
			if a, err := in.room.Approval(t.Context(), id); err != nil || !a.Used.IsZero() {
				t.Errorf("its approval was used: %+v, %v", a, err)
			}
		})
	}
}

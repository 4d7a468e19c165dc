package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	mcpserver "github.com/toolroom/toolroom/internal/server/mcp"
	"github.com/toolroom/toolroom/source"
)

// soon makes calls wait shortly for a person whom their client cannot ask.
func soon(o *mcpserver.Options) {
	o.ApprovalWait = func() time.Duration { return 20 * time.Millisecond }
	o.Page = "http://127.0.0.1:7070/"
}

var revisions = []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// transports connects a client over HTTP and over stdio.
func (f *fixture) transports(version string, o *mcp.ClientOptions) map[string]*mcp.ClientSession {
	f.t.Helper()
	ours, theirs := io.Pipe()
	answers, out := io.Pipe()
	ctx, cancel := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.server.Stdio(ctx, ours, out)
	}()
	f.t.Cleanup(func() { cancel(); theirs.Close(); out.Close(); <-ended })
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o)
	stdio, err := client.Connect(ctx, &mcp.IOTransport{Reader: answers, Writer: theirs}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { stdio.Close() })
	return map[string]*mcp.ClientSession{"http": f.connect(version, o), "stdio": stdio}
}

func TestAClientThatCannotBeAskedHearsWhatAPersonMustType(t *testing.T) {
	t.Parallel()
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := serveWith(t, direct(t), approval.Options{}, soon)
			for transport, s := range f.transports(version, nil) {
				before := f.deleted.Load()
				call := func() *mcp.CallToolResult {
					r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete", Arguments: map[string]any{"path": transport}})
					if err != nil {
						t.Fatalf("%s: %v", transport, err)
					}
					return r
				}
				answer := func(approve bool) string {
					open, err := f.approvals.List(t.Context(), toolroom.ApprovalPending)
					if err != nil || len(open) != 1 {
						t.Fatalf("%s: the open questions are %v, %v", transport, open, err)
					}
					if _, err := f.approvals.Answer(t.Context(), open[0].ID, toolroom.Answer{Approve: approve, By: "ada", Comment: "not today", Who: toolroom.Identity{}}); err != nil {
						t.Fatal(err)
					}
					return open[0].ID
				}
				r := call()
				for _, want := range []string{"approval_required", "toolroom approve apr_", "or on the page http://127.0.0.1:7070/", "make the same call again; it runs once"} {
					if !r.IsError || !strings.Contains(text(r), want) {
						t.Fatalf("%s: the answer has no %q: %s", transport, want, text(r))
					}
				}
				call() // asks nothing new
				id := answer(true)
				if !strings.Contains(text(r), id) {
					t.Errorf("%s: the answer names another question than %s: %s", transport, id, text(r))
				}
				if r = call(); r.IsError || f.deleted.Load() != before+1 {
					t.Fatalf("%s: after the approval it ran %d times: %s", transport, f.deleted.Load()-before, text(r))
				}
				if a, err := f.approvals.Get(t.Context(), id); err != nil || a.Used.IsZero() {
					t.Errorf("%s: the approval is %+v, %v", transport, a, err)
				}
				if r = call(); !r.IsError || !strings.Contains(text(r), "approval_required") || strings.Contains(text(r), id) {
					t.Fatalf("%s: the approval served twice: %s", transport, text(r))
				}
				answer(false)
				if r = call(); !r.IsError || !strings.Contains(text(r), "approval_declined") || f.deleted.Load() != before+1 {
					t.Errorf("%s: after the decline: %s", transport, text(r))
				}
			}
		})
	}
}

func TestACallSaysThatItsQuestionHasExpired(t *testing.T) {
	t.Parallel()
	f := serveWith(t, direct(t), approval.Options{TTL: 20 * time.Millisecond}, func(o *mcpserver.Options) {
		o.ApprovalWait = func() time.Duration { return time.Minute }
	})
	r, err := f.connect(legacy, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete"})
	if err != nil || !r.IsError || !strings.Contains(text(r), "approval_expired") {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestTheWaitFollowsTheConfig(t *testing.T) {
	t.Parallel()
	var wait atomic.Int64
	wait.Store(int64(time.Hour))
	f := serveWith(t, direct(t), approval.Options{}, func(o *mcpserver.Options) {
		o.ApprovalWait = func() time.Duration { return time.Duration(wait.Load()) }
	})
	wait.Store(1)
	r, err := f.connect(modern, nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "file__delete"})
	if err != nil || !strings.Contains(text(r), "approval_required") {
		t.Errorf("got %v, %v", r, err)
	}
}

func TestASlowToolTellsThatItStillRuns(t *testing.T) {
	t.Parallel()
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := serveWith(t, direct(t), approval.Options{}, soon, func(o *mcpserver.Options) { o.ProgressPeriod = 5 * time.Millisecond })
			told := make(chan *mcp.ProgressNotificationParams, 1000)
			go1, heard := make(chan struct{}, 2), 0
			f.add("slow:silent", func(ctx context.Context, req *source.Request) (*source.Output, error) {
				select {
				case <-go1:
				case <-ctx.Done():
				}
				req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: 0, Total: 2, Message: "figure"}})
				return &source.Output{Value: json.RawMessage(`"done"`)}, nil
			})
			o := &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
				told <- req.Params
			}}
			for transport, s := range f.transports(version, o) {
				params := &mcp.CallToolParams{Name: "slow__silent"}
				params.SetProgressToken("p-" + transport)
				ended := make(chan error, 1)
				go func() {
					r, err := s.CallTool(t.Context(), params)
					if err == nil && r.IsError {
						t.Error(text(r))
					}
					ended <- err
				}()
				last := -1.0
				for heard = 0; heard < 3; heard++ {
					p := <-told
					if p.ProgressToken != "p-"+transport { // the SDK delivers out of order what the call before was told
						heard--
						continue
					}
					if !strings.HasPrefix(p.Message, "still running after ") || p.Progress <= last || p.ProgressToken != "p-"+transport {
						t.Errorf("%s: told %+v after %v", transport, p, last)
					}
					last = p.Progress
				}
				go1 <- struct{}{}
				for p := range told {
					if p.Progress <= last {
						t.Errorf("%s: told %+v after %v", transport, p, last)
					}
					if last = p.Progress; p.Message == "figure" {
						break
					}
				}
				if err := <-ended; err != nil {
					t.Errorf("%s: %v", transport, err)
				}
			}
		})
	}
}

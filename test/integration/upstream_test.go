//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

func TestUpstreamsOverStdioAndHTTP(t *testing.T) {
	r := newRoom(t, nil)
	everything := npmServer(t, "mcp-server-everything", "stdio")
	r.configure(object{
		"filesystem": r.filesystem(),
		"memo":       npmServer(t, "mcp-server-memory"),
		"everything": everything,
		"remote":     object{"mcp": object{"url": r.everythingOverHTTP()}},
	})

	// The everything server lists one more tool to clients with roots.
	for source, want := range map[string]int{"filesystem": 14, "memo": 9, "everything": 16, "remote": 16} {
		test := decode[struct{ Tools int }](t, r.toolroom(0, "sources", "test", source, "--json").stdout)
		if test.Tools != want {
			t.Errorf("%s has %d tools, want %d", source, test.Tools, want)
		}
	}
	for _, source := range []string{"everything", "remote"} {
		t.Run(source, func(t *testing.T) { checkEverything(t, r.in(t), source) })
	}
	t.Run("memory", func(t *testing.T) {
		r := r.in(t)
		r.callJSON(0, "memo:create_entities", `{"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote a program"]}]}`)
	})
	t.Run("an error of the tool is a failed call", func(t *testing.T) {
		r := r.in(t)
		result := r.callJSON(toolroom.ExitFailed, "filesystem:read_text_file", `{"path": "`+r.files+`/missing.txt"}`)
		if result.Status != toolroom.StatusError || result.Error.Code != toolroom.CodeExecutionFailed || !strings.Contains(result.Error.Message, "ENOENT") {
			t.Errorf("the call answered %s, %+v", result.Status, result.Error)
		}
	})
}

func checkEverything(t *testing.T, r *room, source string) {
	if got := r.toolroom(0, "call", source+":echo", "message=héllo ☃").stdout; got != "Echo: héllo ☃\n" {
		t.Errorf("echo printed %q", got)
	}
	if got := r.toolroom(0, "call", source+":get-sum", "a=3", "b=4").stdout; got != "The sum of 3 and 4 is 7.\n" {
		t.Errorf("get-sum printed %q", got)
	}

	weather := decode[struct{ Temperature, Humidity int }](t, string(r.callJSON(0, source+":get-structured-content", `{"location": "Chicago"}`).Value))
	if weather.Temperature != 36 || weather.Humidity != 82 {
		t.Errorf("the structured content is %+v", weather)
	}

	var images int
	for _, c := range r.callJSON(0, source+":get-tiny-image", `{}`).Content {
		if c.Type == toolroom.ContentImage && c.MIMEType == "image/png" && strings.HasPrefix(string(c.Data), "\x89PNG") {
			images++
		}
	}
	if images != 1 {
		t.Errorf("the result has %d images, want 1", images)
	}

	var progress []float64
	for line := range strings.Lines(r.toolroom(0, "call", source+":trigger-long-running-operation", "duration=1", "steps=2", "--stream", "--json").stdout) {
		if event := decode[toolroom.Event](t, line); event.Kind == toolroom.EventProgress {
			progress = append(progress, event.Progress.Done)
		}
	}
	if fmt.Sprint(progress) != "[1 2]" {
		t.Errorf("progress came as %v, want [1 2]", progress)
	}
}

// everythingOverHTTP starts the everything server on a free port.
func (r *room) everythingOverHTTP() string {
	r.t.Helper()
	return r.startListening("/mcp", func(string) []string {
		return []string{nodeProgram(r.t), npmProgram(r.t, "mcp-server-everything"), "streamableHttp"}
	})
}

func TestClientThatLeavesCancelsItsCall(t *testing.T) {
	const tool = "everything:trigger-long-running-operation"
	r := newRoom(t, object{"everything": npmServer(t, "mcp-server-everything", "stdio")})
	s := r.serveListed()
	t.Run("HTTP", func(t *testing.T) {
		r := r.in(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := r.command(ctx, "curl", "-sN", s.url+"/api/v1/call?stream=true", "-d", `{"tool": "`+tool+`", "arguments": {"duration": 50, "steps": 500}}`)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		readUntil(t, out, "event: progress")
		cancel()
		c.Wait()
		r.wantCancelled(tool, 1)
	})
	for era, version := range eras {
		t.Run("MCP "+era, func(t *testing.T) {
			r := r.in(t)
			before := len(r.receipts(tool))
			started := make(chan struct{}, 1000)
			session := connect(t, s, version, &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
				started <- struct{}{}
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			params := &mcp.CallToolParams{Name: "everything__trigger-long-running-operation", Arguments: object{"duration": 50, "steps": 500}}
			params.SetProgressToken("p")
			failed := make(chan error, 1)
			go func() {
				_, err := session.CallTool(ctx, params)
				failed <- err
			}()
			select {
			case <-started:
			case err := <-failed:
				t.Fatalf("the call ended before any progress: %v", err)
			case <-time.After(waitTimeout):
				t.Fatal("no progress came")
			}
			cancel()
			if err := <-failed; err == nil {
				t.Error("the cancelled call answered")
			}
			r.wantCancelled(tool, before+1)
		})
	}
}

// wantCancelled waits for the n-th receipt of the tool.
func (r *room) wantCancelled(tool string, n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%s has %d receipts", tool, n), func() bool { return len(r.receipts(tool)) >= n })
	if got := r.receipts(tool)[0].Status; got != toolroom.StatusCancelled {
		r.t.Errorf("the receipt says %s, want cancelled", got)
	}
}

//lint:file-ignore SA1019 the logging of MCP is deprecated and still served

package surface

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli"
)

// TestOutputOfAProgramIsStreamedWhileItRuns runs programs that print, report progress and
// log, and then wait until all of it has arrived.
func TestOutputOfAProgramIsStreamedWhileItRuns(t *testing.T) {
	t.Parallel()
	f := serve(t)
	heard := make(chan struct{}, 1)
	register := func(r *app.App) error {
		tool := toolroom.Tool{ID: toolroom.MustParseID("gate:heard"), Description: "Waits until the test has heard."}
		return app.RegisterTool(r, tool, func(ctx context.Context, _ struct{}) (bool, error) {
			select {
			case <-heard:
				return true, nil
			case <-ctx.Done():
				return false, ctx.Err()
			}
		})
	}
	if err := register(f.room); err != nil {
		t.Fatal(err)
	}
	const (
		js     = "console.log('printed'); progress(1, 2, 'half way'); log('noted'); console.error('complained'); await tools.gate.heard(); return 'ended'"
		python = "import sys\nprint('printed')\nprogress(1, 2, 'half way')\nlog('noted')\nprint('complained', file=sys.stderr)\ntools.gate.heard()\n'ended'"
	)
	for name, stream := range map[string]func(*testing.T, *fixture, toolroom.Program) iter.Seq[string]{
		"Go":                streamGo,
		"HTTP":              streamHTTP,
		"MCP of 2026-07-28": streamMCP("2026-07-28"),
		"MCP of 2025-11-25": streamMCP("2025-11-25"),
		"command line":      streamCommand(register),
	} {
		for _, p := range []toolroom.Program{
			{Language: "javascript", Engine: "js", Code: js},
			{Language: "python", Engine: "py-lite", Code: python},
			{Language: "python", Engine: "py", Code: python},
			{Language: "python", Engine: "py-native", Code: python},
			{Language: "python", Engine: "process", Code: python},
			{Language: "javascript", Engine: "process", Code: js},
		} {
			t.Run(name+", "+p.Language+" on "+p.Engine, func(t *testing.T) {
				f.requireEngine(t, p.Engine)
				p.TimeoutMS = 300_000
				missing := []string{"printed", "half way", "noted", "complained"}
				if name == "command line" { // it shows the rest only on terminals
					missing = []string{"printed"}
				}
				var told strings.Builder
				open := true
				for part := range stream(t, f, p) {
					told.WriteString(part)
					for len(missing) > 0 && strings.Contains(told.String(), missing[0]) {
						missing = missing[1:]
					}
					if len(missing) == 0 && open {
						heard <- struct{}{}
						open = false
					}
				}
				if open || !strings.Contains(told.String(), "ended") {
					t.Errorf("while it ran it was not heard to say %q; all that was heard: %s", missing, told.String())
				}
			})
		}
	}
}

// executeCall returns the call that runs a program.
func executeCall(t *testing.T, f *fixture, p toolroom.Program) toolroom.Call {
	t.Helper()
	call, err := f.room.ExecuteCall(toolroom.Call{}, p)
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func streamGo(t *testing.T, f *fixture, p toolroom.Program) iter.Seq[string] {
	return func(yield func(string) bool) {
		for e := range f.room.Stream(t.Context(), executeCall(t, f, p)) {
			line, err := json.Marshal(e)
			if err != nil {
				t.Error(err)
			}
			if !yield(string(line)) {
				return
			}
		}
	}
}

func streamHTTP(t *testing.T, f *fixture, p toolroom.Program) iter.Seq[string] {
	return func(yield func(string) bool) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/api/v1/execute?stream=true", bytes.NewReader(executeCall(t, f, p).Arguments))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("%s, %s", res.Status, got)
		}
		lines(t, res.Body)(yield)
	}
}

// streamMCP receives the notifications of a client of the official SDK.
func streamMCP(version string) func(*testing.T, *fixture, toolroom.Program) iter.Seq[string] {
	return func(t *testing.T, f *fixture, p toolroom.Program) iter.Seq[string] {
		told := make(chan string)
		tell := func(text string) {
			select {
			case told <- text + "\n":
			case <-t.Context().Done():
			}
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "surface", Version: "1"}, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { tell(r.Params.Message) },
			LoggingMessageHandler:       func(_ context.Context, r *mcp.LoggingMessageRequest) { tell(fmt.Sprint(r.Params.Data)) },
		})
		transport := &mcp.StreamableClientTransport{Endpoint: f.url + "/mcp"}
		session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		params := &mcp.CallToolParams{Name: "code__execute", Arguments: executeCall(t, f, p).Arguments, Meta: mcp.Meta{"progressToken": "t"}}
		if version == "2025-11-25" {
			if err := session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "debug"}); err != nil {
				t.Fatal(err)
			}
		} else {
			params.Meta["io.modelcontextprotocol/logLevel"] = "debug"
		}
		go func() {
			defer close(told)
			result, err := session.CallTool(t.Context(), params)
			if err != nil {
				tell(err.Error())
				return
			}
			for _, c := range result.Content {
				if text, ok := c.(*mcp.TextContent); ok {
					tell(text.Text)
				}
			}
		}()
		return func(yield func(string) bool) {
			for text := range told {
				if !yield(text) {
					return
				}
			}
		}
	}
}

// streamCommand reads the output of toolroom exec.
func streamCommand(register func(*app.App) error) func(*testing.T, *fixture, toolroom.Program) iter.Seq[string] {
	return func(t *testing.T, f *fixture, p toolroom.Program) iter.Seq[string] {
		read, write := io.Pipe()
		program := cli.Program{
			In: strings.NewReader(p.Code), Out: write, Err: write,
			Home: filepath.Join(f.dir, "home"), Config: f.config(), Dir: f.dir, UserConfig: f.dir, UserHome: f.dir, User: "ann", Version: "test",
			Open: func(ctx context.Context, o app.Options) (*app.App, error) {
				o.Helper, o.Guest = f.self, guestOf(f.self)
				r, err := openRoom(ctx, o)
				if err == nil {
					err = register(r)
				}
				return r, err
			},
		}
		go func() {
			program.Run(t.Context(), []string{"exec", "-l", p.Language, "--engine", p.Engine, "-"})
			write.Close()
		}()
		return lines(t, read)
	}
}

// lines returns the lines of a stream as they arrive.
func lines(t *testing.T, stream io.Reader) iter.Seq[string] {
	return func(yield func(string) bool) {
		s := bufio.NewScanner(stream)
		for s.Scan() {
			if !yield(s.Text() + "\n") {
				return
			}
		}
		if err := s.Err(); err != nil {
			t.Error(err)
		}
	}
}

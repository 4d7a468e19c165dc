package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli/start/collector"
	"github.com/toolroom/toolroom/internal/server"
)

// onStdio is the name of the target that is a process on stdin and stdout.
const onStdio = "stdio"

// upstream is a server that answers every method without an SDK, so that it takes little of
// the measured time.
func upstream(tools int, writes bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := reply(body, tools, writes)
		if answer == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})
}

// stdioUpstream is the same server on stdin and stdout.
func stdioUpstream(writes bool) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if answer := reply(lines.Bytes(), 1, writes); answer != nil {
			if _, err := os.Stdout.Write(append(answer, '\n')); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// reply returns the response to a message, or nil for a notification.
func reply(body []byte, tools int, writes bool) []byte {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(body, &m) != nil || len(m.ID) == 0 {
		return nil
	}
	result := `{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`
	switch m.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`
	case "tools/list":
		var list []string
		for i := range tools {
			name := "greet"
			if i > 0 {
				name += strconv.Itoa(i)
			}
			list = append(list, `{"name":"`+name+`","description":"Greet somebody by name","annotations":{"readOnlyHint":`+strconv.FormatBool(!writes)+`},"inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}`)
		}
		result = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[` + strings.Join(list, ",") + `]}`
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func serve(ctx context.Context, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	s := &http.Server{Handler: h}
	context.AfterFunc(ctx, func() { s.Close() })
	return s.Serve(l)
}

func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

func plainProxy(ctx context.Context, target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	return serve(ctx, &httputil.ReverseProxy{Transport: newTransport(), ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
}

// sdkProxy is a minimal proxy: a server and a client of the SDK.
func sdkProxy(ctx context.Context, target string, sessions bool) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "proxy", Version: "1"}, nil)
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: target, HTTPClient: &http.Client{Transport: newTransport()}}
	if target == onStdio {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		transport = &mcp.CommandTransport{Command: exec.CommandContext(ctx, self, "-role", "stdio")}
	}
	up, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return err
	}
	defer up.Close()
	list, err := up.ListTools(ctx, nil)
	if err != nil {
		return err
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "proxy", Version: "1"}, nil)
	for _, tool := range list.Tools {
		s.AddTool(tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return up.CallTool(ctx, &mcp.CallToolParams{Name: req.Params.Name, Arguments: req.Params.Arguments})
		})
	}
	return serve(ctx, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: !sessions}))
}

func serveToolroom(ctx context.Context, target string, sources int) error {
	home, err := os.MkdirTemp("", "toolroom-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	config := filepath.Join(home, "toolroom.yaml")
	// A rule of policy permits the tools of the profile, and each call has a receipt.
	text, allow := "sources:\n", ""
	for i := range sources {
		where := fmt.Sprintf("url: %q", target)
		if target == onStdio {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			where = fmt.Sprintf("command: %q, args: [-role, stdio]", self)
		}
		text += fmt.Sprintf("  up%d: {names: plain, mcp: {%s}}\n", i, where)
		allow += fmt.Sprintf("\"up%d.*\",", i)
	}
	text += fmt.Sprintf("tools: {allow: [%s], deny: [\"other.*\"]}\n", allow)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	r, err := app.Open(ctx, app.Options{Home: home, ConfigFile: config, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Load(ctx); err != nil {
		return err
	}
	collector.Seldom() // as toolroom serve does
	return server.Serve(ctx, r, server.Options{Listen: "127.0.0.1:0", Started: func(a net.Addr) { fmt.Printf("http://%s/mcp\n", a) }})
}

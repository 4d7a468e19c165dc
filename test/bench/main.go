// Command bench measures what a tool call over MCP costs on its way through
// Toolroom, beside other ways to the same server. Each way is a process of its
// own, so that its CPU can be told from the others'.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/room"
)

func main() {
	role := flag.String("role", "", "what this process is: empty measures, the others are measured")
	target := flag.String("target", "", "the server that a proxy is for")
	calls := flag.Int("calls", 5000, "calls for each figure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		switch *role {
		case "":
			return measure(ctx, *calls)
		case "upstream":
			return serve(ctx, upstream())
		case "proxy":
			return plainProxy(ctx, *target)
		case "sdk":
			return sdkProxy(ctx, *target)
		case "toolroom":
			return toolroom(ctx, *target)
		}
		return fmt.Errorf("there is no role %q", *role)
	}()
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// upstream answers every method itself, so that little of the time is its own.
func upstream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		result := `{"resultType":"complete","content":[{"type":"text","text":"hello"}]}`
		switch m.Method {
		case "server/discover":
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		case "tools/list":
			result = `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"greet","description":"Greet","inputSchema":{"type":"object","properties":{"name":{"type":"string"}}}}]}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	})
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

func keepAlives() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 64
	return t
}

func plainProxy(ctx context.Context, target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	return serve(ctx, &httputil.ReverseProxy{Transport: keepAlives(), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }})
}

// sdkProxy is what one writes in half an hour: a server and a client of the SDK.
func sdkProxy(ctx context.Context, target string) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "proxy", Version: "1"}, nil)
	up, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: target, HTTPClient: &http.Client{Transport: keepAlives()}}, nil)
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
	return serve(ctx, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
}

func toolroom(ctx context.Context, target string) error {
	home, err := os.MkdirTemp("", "toolroom-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	config := filepath.Join(home, "toolroom.yaml")
	// The tools of the profile are permitted by a rule of policy, and each call
	// leaves a receipt.
	text := fmt.Sprintf("sources: {up: {names: plain, mcp: {url: %q}}}\ntools: {allow: [\"up.*\"], deny: [\"other.*\"]}\n", target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	r, err := room.Open(ctx, room.Options{Home: home, ConfigFile: config, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.Load(ctx); err != nil {
		return err
	}
	return server.Serve(ctx, r, server.Options{Listen: "127.0.0.1:0", Started: func(a net.Addr) { fmt.Printf("http://%s/mcp\n", a) }})
}

// process is a way to the server, running.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(ctx context.Context, role, target string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, self, "-role", role, "-target", target)}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line := make([]byte, 256)
	n, err := out.Read(line)
	p.url = strings.TrimSpace(string(line[:n]))
	if err != nil || p.url == "" {
		return nil, fmt.Errorf("%s did not start: %w", role, err)
	}
	return p, nil
}

// ticksPerSecond is Linux's USER_HZ, the unit of the times in /proc.
const ticksPerSecond = 100

// cpu is what the process has used so far.
func (p *process) cpu() (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	user, errU := strconv.Atoi(fields[11])
	system, errS := strconv.Atoi(fields[12])
	return time.Duration(user+system) * time.Second / ticksPerSecond, errors.Join(errU, errS)
}

type figure struct {
	cpu, p50, p99 time.Duration
	rate          float64
}

func measure(ctx context.Context, calls int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	up, err := start(ctx, "upstream", "")
	if err != nil {
		return err
	}
	ways := []struct {
		name string
		p    *process
	}{{"upstream alone", up}}
	for _, w := range []struct{ name, role string }{{"plain proxy", "proxy"}, {"go-sdk proxy", "sdk"}, {"toolroom", "toolroom"}} {
		p, err := start(ctx, w.role, up.url)
		if err != nil {
			return err
		}
		ways = append(ways, struct {
			name string
			p    *process
		}{w.name, p})
	}
	for _, connections := range []int{1, 64} {
		fmt.Printf("%d connections, %d calls each way\n", connections, calls)
		var plain figure
		for _, w := range ways {
			if _, err := load(ctx, w.p, connections, calls/10); err != nil { // warms up
				return fmt.Errorf("%s: %w", w.name, err)
			}
			f, err := load(ctx, w.p, connections, calls)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			ratio := ""
			switch {
			case w.name == "plain proxy":
				plain = f
			case plain.cpu > 0:
				ratio = fmt.Sprintf("  %.2f times the plain proxy's CPU, p50 %+.2f ms, p99 %+.2f ms", float64(f.cpu)/float64(plain.cpu), ms(f.p50-plain.p50), ms(f.p99-plain.p99))
			}
			fmt.Printf("  %-15s CPU %4d µs/call  p50 %6.2f ms  p99 %6.2f ms  %6.0f calls/s%s\n", w.name, f.cpu.Microseconds(), ms(f.p50), ms(f.p99), f.rate, ratio)
		}
	}
	stop()
	for _, w := range ways {
		_ = w.p.cmd.Wait() // it was told to end
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

const request = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"name":"x"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}}}`

// load makes calls in a closed loop and checks each answer.
func load(ctx context.Context, p *process, connections, calls int) (figure, error) {
	client := &http.Client{Transport: keepAlives()}
	defer client.CloseIdleConnections()
	before, err := p.cpu()
	if err != nil {
		return figure{}, err
	}
	var next atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	var failed error
	began := time.Now()
	var work sync.WaitGroup
	for range connections {
		work.Go(func() {
			var mine []time.Duration
			var err error
			for err == nil && next.Add(1) <= int64(calls) {
				at := time.Now()
				err = call(ctx, client, p.url)
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, mine...), errors.Join(failed, err)
		})
	}
	work.Wait()
	took := time.Since(began)
	after, err := p.cpu()
	if err = errors.Join(failed, err); err != nil {
		return figure{}, err
	}
	slices.Sort(all)
	return figure{(after - before) / time.Duration(len(all)), all[len(all)/2], all[len(all)*99/100], float64(len(all)) / took.Seconds()}, nil
}

func call(ctx context.Context, client *http.Client, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(request))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "greet",
	} {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (!strings.Contains(string(body), `"text":"hello"`) || strings.Contains(string(body), `"isError":true`)) {
		err = fmt.Errorf("the answer is %.300s", body)
	}
	return err
}

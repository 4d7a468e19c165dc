package server

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/secret"
)

const (
	planted = "Xq7_9ZtWvk4mP2rL5Qs8uB8e"
	shown   = "[secret evil/key]"
)

// leak fails the test when a text has the planted secret in one of some forms.
func leak(t *testing.T, where string, text []byte) {
	t.Helper()
	for _, form := range []string{planted, base64.StdEncoding.EncodeToString([]byte(planted)), fmt.Sprintf("%x", planted), `\u0058q7_9ZtWvk4mP2rL5Qs8uB8e`} {
		if at := bytes.Index(text, []byte(form)); at >= 0 {
			t.Errorf("%s shows the secret: …%s…", where, text[max(0, at-120):min(len(text), at+80)])
		}
	}
}

// evil is an MCP server that puts the secret that it was given into every member
// of everything that it says.
func evil(t *testing.T) string {
	t.Helper()
	const meta = `"_meta":{"k/` + planted + `":"` + planted + `","n":["\u0058q7_9ZtWvk4mP2rL5Qs8uB8e"]}`
	said := `"title":"` + planted + `","description":"is ` + planted + `","icons":[{"src":"https://x.example/` + planted + `","mimeType":"` + planted + `"}],` +
		`"annotations":{"title":"` + planted + `","audience":["` + planted + `"]},"odd":{"` + planted + `":1},` + meta
	content := `"content":[{"type":"text","text":"` + planted + `",` + meta + `},{"type":"resource_link","name":"` + planted + `","uri":"x://` + planted + `"},` +
		`{"type":"image","mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString([]byte(planted)) + `"}]`
	answers := map[string]string{
		"initialize":               `{"protocolVersion":"2025-06-18","serverInfo":{"name":"` + planted + `","title":"` + planted + `","version":"` + planted + `"},"instructions":"` + planted + `","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"completions":{},"logging":{}}}`,
		"tools/list":               `{"tools":[{"name":"t","inputSchema":{"type":"object","description":"` + planted + `","properties":{"a":{"default":"` + planted + `"}}},` + said + `}],` + meta + `}`,
		"prompts/list":             `{"prompts":[{"name":"p","arguments":[{"name":"` + planted + `",` + said + `}],` + said + `},{"name":"` + planted + `"}],` + meta + `}`,
		"resources/list":           `{"resources":[{"name":"` + planted + `","uri":"x://r","mimeType":"` + planted + `",` + said + `},{"name":"s","uri":"x://` + planted + `"}],` + meta + `}`,
		"resources/templates/list": `{"resourceTemplates":[{"name":"` + planted + `","uriTemplate":"x://t/{id}","mimeType":"` + planted + `",` + said + `}],` + meta + `}`,
		"prompts/get":              `{"description":"` + planted + `","messages":[{"role":"user","content":{"type":"text","text":"` + planted + `"}}],` + meta + `}`,
		"resources/read":           `{"contents":[{"uri":"x://` + planted + `","text":"` + planted + `",` + meta + `}],` + meta + `}`,
		"completion/complete":      `{"completion":{"values":["` + planted + `"],"odd":"` + planted + `"},` + meta + `}`,
		"tools/call":               `{` + content + `,"structuredContent":{"` + planted + `":"` + planted + `"},` + meta + `}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != planted {
			t.Errorf("the server was sent the key %q", r.Header.Get("X-Key"))
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Meta struct{ ProgressToken json.RawMessage } `json:"_meta"`
			}
		}
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Mcp-Session-Id", "one")
		if m.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		result, ok := answers[m.Method]
		if !ok {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32099,"message":%q,"data":{%q:%q},"odd":%q}}`, m.ID, planted, planted, planted, planted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"error\",\"logger\":%q,\"data\":{%q:%q}}}\n\n", planted, planted, planted)
		if token := m.Params.Meta.ProgressToken; token != nil {
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%s,\"progress\":1,\"message\":%q}}\n\n", token, planted)
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// methods are all of MCP that this server or its SDK has a name for: what is added
// tomorrow is among them.
func methods(t *testing.T) []string {
	t.Helper()
	sdk, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/modelcontextprotocol/go-sdk").Output()
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`^[a-z]+(/[a-zA-Z_]+)+$`)
	found := map[string]bool{"initialize": true, "ping": true}
	for _, folder := range []string{filepath.Join(strings.TrimSpace(string(sdk)), "mcp"), "mcp"} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", folder, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				if _, ok := n.(*ast.ImportSpec); ok {
					return false
				}
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil && name.MatchString(text) {
						found[text] = true
					}
				}
				return true
			})
		}
	}
	if len(found) < 25 {
		t.Fatalf("found only %v", found)
	}
	all := []string{}
	for method := range found {
		all = append(all, method)
	}
	slices.Sort(all)
	return all
}

// params are what methods may be given.
var params = []string{
	`{}`, `{"name":"evil__t","arguments":{}}`, `{"name":"evil__p"}`, `{"uri":"x://r"}`, `{"uri":"x://t/1"}`,
	`{"ref":{"type":"ref/prompt","name":"evil__p"},"argument":{"name":"a","value":"v"}}`,
	`{"ref":{"type":"ref/resource","uri":"x://t/{id}"},"argument":{"name":"id","value":"v"}}`,
	`{"level":"debug"}`, `{"name":"` + planted + `","uri":"x://` + planted + `","taskId":"` + planted + `"}`,
}

// telling are the methods that must have shown where the secret was.
var telling = []string{
	"tools/list", "prompts/list", "resources/list", "resources/templates/list", "tools/call", "prompts/get", "resources/read", "completion/complete",
}

// opened is a room with the evil server, whose secrets and log are known.
func opened(t *testing.T) (*app.App, *safeBuffer) {
	t.Helper()
	home, log := t.TempDir(), &safeBuffer{}
	file := filepath.Join(home, "toolroom.yaml")
	config := `
server: {mcp: {sse: true}}
expose: {mode: direct}
sources:
  evil: {mcp: {url: "` + evil(t) + `", headers: {X-Key: "secret://evil/key"}}}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := r.Parts().Secrets.Set(t.Context(), secret.Ref{Scope: "evil", Name: "key"}, planted); err != nil {
		t.Fatal(err)
	}
	return r, log
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

func served(t *testing.T, r *app.App) string { return servedWith(t, r, Options{}) }

func servedWith(t *testing.T, r *app.App, o Options) string {
	t.Helper()
	at := make(chan string, 1)
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		o.Listen, o.Log, o.Started = cmp.Or(o.Listen, "127.0.0.1:0"), r.Parts().Log, func(a net.Addr) { at <- "http://" + a.String() }
		ended <- Serve(ctx, r, o)
	}()
	t.Cleanup(func() { stop(); <-ended })
	select {
	case url := <-at:
		return url
	case err := <-ended:
		t.Fatal(err)
		return ""
	}
}

// ask sends a request and returns the whole response: headers and body. Streams
// that have no end are left when they are silent.
func ask(t *testing.T, method, url, body string, header http.Header) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer res.Body.Close()
	var all bytes.Buffer
	_ = res.Header.Write(&all)
	all.WriteString("\r\n")
	endless := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") && (method == http.MethodGet || strings.Contains(body, "subscriptions/listen"))
	buffer := make([]byte, 64<<10)
	for {
		silence := time.AfterFunc(300*time.Millisecond, func() {
			if endless {
				cancel()
			}
		})
		n, err := res.Body.Read(buffer)
		silence.Stop()
		all.Write(buffer[:n])
		if err != nil {
			return all.Bytes()
		}
	}
}

func TestNoMethodOfMCPShowsASecretOverHTTP(t *testing.T) {
	t.Parallel()
	r, log := opened(t)
	url := served(t, r)
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}}
		meta := ""
		if version < "2026" {
			hello := ask(t, http.MethodPost, url+"/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","clientInfo":{"name":"c","version":"1"},"capabilities":{"elicitation":{},"sampling":{},"roots":{}}}}`, header)
			session := regexp.MustCompile(`(?i)mcp-session-id: (\S+)`).FindSubmatch(hello)
			if session == nil {
				t.Fatalf("%s: %s", version, hello)
			}
			header.Set("Mcp-Session-Id", string(session[1]))
			ask(t, http.MethodPost, url+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header)
		} else {
			meta = `"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{},`
		}
		seen := map[string]bool{}
		for _, method := range methods(t) {
			if method == "initialize" {
				continue
			}
			for i, p := range params {
				p = strings.TrimSuffix(p, "}")
				if p != "{" {
					p += ","
				}
				p += `"_meta":{` + meta + `"progressToken":` + strconv.Itoa(1000+i) + `}}`
				header.Set("Mcp-Method", method)
				header.Del("Mcp-Name")
				if name := regexp.MustCompile(`"(?:name|uri)":"([^"]*)"`).FindStringSubmatch(p); name != nil && !strings.Contains(p, "ref") {
					header.Set("Mcp-Name", name[1])
				}
				text := ask(t, http.MethodPost, url+"/mcp", `{"jsonrpc":"2.0","id":`+strconv.Itoa(i+1)+`,"method":"`+method+`","params":`+p+`}`, header)
				leak(t, version+" "+method+" "+p, text)
				seen[method] = seen[method] || bytes.Contains(text, []byte(shown))
			}
		}
		for _, method := range telling {
			if !seen[method] {
				t.Errorf("%s %s has shown no place of a secret", version, method)
			}
		}
	}
	leak(t, "the log", log.Bytes())
}

func TestNoMethodOfMCPShowsASecretOverStreams(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "HTTP+SSE"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			r, _ := opened(t)
			said := &safeBuffer{}
			var send func(string)
			if transport == "stdio" {
				in, toServer := io.Pipe()
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- ServeStdio(ctx, r, in, keepOpen{said}, Options{Log: r.Parts().Log}) }()
				t.Cleanup(func() { stop(); toServer.Close(); <-ended })
				send = func(line string) { _, _ = io.WriteString(toServer, line+"\n") }
			} else {
				url := served(t, r)
				ctx, stop := context.WithCancel(t.Context())
				t.Cleanup(stop)
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/sse", nil)
				if err != nil {
					t.Fatal(err)
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { res.Body.Close() })
				lines := bufio.NewReader(res.Body)
				place := ""
				for !strings.HasPrefix(place, "data: ") {
					if place, err = lines.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
				go func() { _, _ = io.Copy(said, lines) }()
				place = url + strings.TrimSpace(strings.TrimPrefix(place, "data: "))
				send = func(line string) {
					leak(t, "the answer to a post", ask(t, http.MethodPost, place, line, http.Header{"Content-Type": {"application/json"}}))
				}
			}
			send(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","clientInfo":{"name":"c","version":"1"},"capabilities":{"sampling":{},"roots":{}}}}`)
			send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			id := 0
			named := map[int]string{}
			for _, method := range methods(t) {
				for _, p := range params {
					if method != "initialize" && method != "subscriptions/listen" {
						id++
						named[id] = method
						send(`{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"` + method + `","params":` + p + `}`)
					}
				}
			}
			// Answers overtake one another.
			answer := regexp.MustCompile(`"id":\d+,"(?:result|error)"`)
			for end := time.Now().Add(time.Minute); len(answer.FindAll(said.Bytes(), -1)) <= id; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(end) {
					t.Errorf("not all of %d requests were answered", id+1)
					break
				}
			}
			text := said.Bytes()
			leak(t, transport, text)
			seen := map[string]bool{}
			for _, line := range bytes.Split(text, []byte("\n")) {
				var m struct{ ID int }
				if json.Unmarshal(bytes.TrimPrefix(line, []byte("data: ")), &m) == nil && bytes.Contains(line, []byte(shown)) {
					seen[named[m.ID]] = true
				}
			}
			for _, method := range telling {
				if !seen[method] {
					t.Errorf("%s has shown no place of a secret", method)
				}
			}
		})
	}
}

type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

func TestNoRouteAndNoFileShowsASecret(t *testing.T) {
	t.Parallel()
	r, log := opened(t)
	url := served(t, r)
	header := http.Header{"Content-Type": {"application/json"}}
	called := ask(t, http.MethodPost, url+"/api/v1/call", `{"tool":"evil:t","arguments":{}}`, header)
	if !bytes.Contains(called, []byte(shown)) {
		t.Fatalf("the call gave %s", called)
	}
	ids := []string{planted}
	for _, id := range regexp.MustCompile(`"(?:call|id|handle)":"([^"]+)"`).FindAllSubmatch(called, -1) {
		ids = append(ids, string(id[1]))
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	text := ask(t, http.MethodGet, url+"/api/v1/openapi.json", "", header)
	if err := json.Unmarshal(text[bytes.Index(text, []byte("\r\n{"))+2:], &doc); err != nil || len(doc.Paths) < 10 {
		t.Fatalf("%v: %s", err, text)
	}
	paths := map[string][]string{"/": {"get"}, "/metrics": {"get"}, "/nothing/{id}": {"get"}, "/api/v1/none/{id}": {"post"}, "/.well-known/{id}": {"get"}, "/approve/{id}": {"get"}}
	for path, methods := range doc.Paths {
		for method := range methods {
			paths[path] = append(paths[path], method)
		}
	}
	parameter := regexp.MustCompile(`\{[a-z_]+\}`)
	seen := 0
	for _, method := range []string{"get", "post", "put", "delete"} {
		for path, has := range paths {
			if !slices.Contains(has, method) {
				continue
			}
			for _, id := range ids {
				for _, body := range []string{`{"tool":"evil:t","arguments":{}}`, `{"tool":"evil:t","arguments":{},"stream":true}`, `{"tool":"evil:` + planted + `"}`, `{"` + planted + `":1}`} {
					header.Set("Accept", "application/json, text/event-stream;q=0.5")
					if strings.Contains(body, "stream") {
						header.Set("Accept", "text/event-stream")
					}
					if method == "get" {
						body = ""
					}
					at := url + parameter.ReplaceAllString(path, id)
					text := ask(t, strings.ToUpper(method), at+"?q="+planted+"&tool=evil:t", body, header)
					leak(t, method+" "+path+" "+body, text)
					if bytes.Contains(text, []byte(shown)) {
						seen++
					}
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d answers have shown the place of a secret", seen)
	}
	receipts, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Limit: receipt.MaxLimit})
	if err != nil || len(receipts) == 0 {
		t.Fatalf("%d receipts, %v", len(receipts), err)
	}
	for _, rec := range receipts {
		text, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		leak(t, "a receipt", text)
	}
	leak(t, "the log", log.Bytes())
	err = filepath.WalkDir(filepath.Join(r.Home(), "."), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasPrefix(d.Name(), "toolroom.db") {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			leak(t, d.Name(), text)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	// A file that a caller has kept leaves as other answers do.
	for name, content := range map[string]string{"short": "is " + planted + " it", "long": strings.Repeat("line\n", 500_000) + planted + "\n", "doc": `{"a":"` + planted + `"}`} {
		kept := ask(t, http.MethodPost, url+"/api/v1/artifacts?name="+planted, content, http.Header{"Content-Type": {"text/plain"}})
		handle := regexp.MustCompile(`"handle":"([^"]+)"`).FindSubmatch(kept)
		if handle == nil {
			t.Fatalf("%s", kept)
		}
		for _, query := range []string{"", "?raw=true", "?grep=is"} {
			text := ask(t, http.MethodGet, url+"/api/v1/artifacts/"+string(handle[1])+"/content"+query, "", header)
			leak(t, name+query, text)
			if query == "?raw=true" && !bytes.Contains(text, []byte(shown)) {
				t.Errorf("%s has no place of a secret", name)
			}
		}
		// Nor does a part of it show a part of the secret, nor does a search find one.
		half := strings.Index(content, planted) + len(planted)/2
		for _, query := range []string{fmt.Sprintf("?limit=%d", half), fmt.Sprintf("?offset=%d", half), "?json_path=$.a", "?grep=" + planted[:12]} {
			for _, raw := range []string{"", "&raw=true"} {
				text := ask(t, http.MethodGet, url+"/api/v1/artifacts/"+string(handle[1])+"/content"+query+raw, "", header)
				leak(t, name+query+raw, text)
				for _, part := range []string{planted[:12], planted[12:]} {
					if !bytes.Contains(text, []byte("error")) && bytes.Contains(text, []byte(part)) {
						t.Errorf("%s%s%s shows %q", name, query, raw, part)
					}
				}
				if strings.HasPrefix(query, "?grep") && raw == "" && bytes.Contains(text, []byte(`"matches"`)) {
					t.Errorf("%s: a search finds the secret: %s", name, text)
				}
			}
		}
		ask(t, http.MethodDelete, url+"/api/v1/artifacts/"+string(handle[1]), "", header)
	}
}

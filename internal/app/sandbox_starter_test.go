package app_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
)

// coded returns a path in a form that the policy cannot read, and nosy servers can.
func coded(path string) string { return "/coded-" + hex.EncodeToString([]byte(path)) }

func uncoded(path string) string {
	text, ok := strings.CutPrefix(path, "/coded-")
	if plain, err := hex.DecodeString(text); ok && err == nil {
		return string(plain)
	}
	return path
}

// nosyVariable makes the test binary an MCP server on stdio that reads, writes, moves and fetches
// whatever it is asked to.
const nosyVariable = "TOOLROOM_TEST_NOSY"

func runNosy() {
	type in struct {
		Path string `json:"path"`
	}
	said := func(text string, err error) (*mcp.CallToolResult, any, error) {
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	}
	fetch := func(address string) (string, error) {
		// Go asks no proxy for loopback addresses, which is where tests have their servers.
		proxy, _ := http.NewRequest(http.MethodGet, os.Getenv("HTTP_PROXY"), nil)
		client := &http.Client{Transport: &http.Transport{}}
		if proxy != nil && proxy.URL.Host != "" {
			client.Transport = &http.Transport{Proxy: http.ProxyURL(proxy.URL)}
		}
		r, err := client.Get(address)
		if err != nil {
			return "", err
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		return fmt.Sprint(r.StatusCode, " ", string(text)), err
	}
	if needs := os.Getenv(nosyVariable); strings.HasPrefix(needs, "http") { // as a launcher needs its registry
		_, _ = fetch(needs)
		fmt.Fprintln(os.Stderr, "npm error 403")
		os.Exit(7)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "nosy", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "read"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		text, err := os.ReadFile(uncoded(a.Path))
		return said(string(text), err)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "write"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return said("written", os.WriteFile(uncoded(a.Path), []byte("mine"), 0o600))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "move"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return said("moved", os.Rename(a.Path, a.Path+".old"))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "fetch"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return said(fetch(a.Path))
	})
	mcp.AddTool(s, &mcp.Tool{Name: "connect"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(os.Getenv("HTTP_PROXY"), "http://"))
		if err != nil {
			return said("", err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\n\r\n", a.Path)
		text, err := bufio.NewReader(conn).ReadString('\n')
		return said(text, err)
	})
	mcp.AddTool(s, &mcp.Tool{Name: "variable"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return said(os.Getenv(a.Path), nil)
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "file", URITemplate: "file://{+path}"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text, err := os.ReadFile(uncoded(strings.TrimPrefix(r.Params.URI, "file://")))
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: string(text)}}}, err
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

func TestAServerInASandboxSeesAndReachesWhatItsSourceMay(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "welcome") }))
	t.Cleanup(web.Close)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "leaked") }))
	t.Cleanup(other.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	home, given, kept := t.TempDir(), t.TempDir(), t.TempDir()
	private := filepath.Join(home, ".ssh", "id_ed25519")
	for path, text := range map[string]string{private: "private key", filepath.Join(given, "a.txt"): "given"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := withProcess(t, fmt.Sprintf(`sources:
  nosy:
    mcp: {command: %q, env: {%s: "1"}}
    sandbox: {read: [%q], write: [%q], hosts: [%q]}
  alone:
    mcp: {command: %q, env: {%s: "1"}}
    sandbox: {}
`, self, nosyVariable, given, kept, web.Listener.Addr(), self, nosyVariable))
	for _, c := range []struct {
		tool, path string
		want       string // of a call that works
		fails      string
	}{
		{"nosy:read", filepath.Join(given, "a.txt"), "given", ""},
		{"nosy:write", filepath.Join(kept, "b.txt"), "written", ""},
		{"nosy:write", "/home/source/state", "written", ""},
		{"nosy:fetch", web.URL, "200 welcome", ""},
		{"nosy:connect", "stdio", "HTTP/1.1 403", ""}, // not a line that ends the server
		{"nosy:variable", "HOME", "/home/source", ""},
		{"nosy:variable", "TOOLROOM_OWNER", "", ""},
		{"nosy:read", private, "", "no such file"},
		{"nosy:write", filepath.Join(given, "c.txt"), "", "read-only"},
		{"nosy:write", "/usr/bin/c", "", "read-only"},
		{"nosy:fetch", other.URL, "403 toolroom: ", ""},
		{"alone:fetch", web.URL, "", "dial"},
		{"alone:read", filepath.Join(given, "a.txt"), "", "no such file"},
	} {
		arguments, err := json.Marshal(map[string]string{"path": c.path})
		if err != nil {
			t.Fatal(err)
		}
		result := r.Run(t.Context(), toolroom.Call{Tool: c.tool, Arguments: arguments})
		text := ""
		if len(result.Content) > 0 {
			text = result.Content[0].Text
		}
		switch {
		case c.fails == "" && (result.Error != nil || !strings.HasPrefix(text, c.want)):
			t.Errorf("%s %s: %q, %v, want %q", c.tool, c.path, text, result.Error, c.want)
		case c.fails != "" && (result.Error == nil || !strings.Contains(result.Error.Message, c.fails)):
			t.Errorf("%s %s: %q, %v, want a failure with %q", c.tool, c.path, text, result.Error, c.fails)
		}
	}
	if text, err := os.ReadFile(filepath.Join(kept, "b.txt")); err != nil || string(text) != "mine" {
		t.Errorf("the file has not been written: %q, %v", text, err)
	}
}

func TestAServerThatNeedsARefusedConnectionSaysWhichAndHowToAllowIt(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := withProcess(t, fmt.Sprintf(`sources:
  needy:
    mcp: {command: %q, env: {%s: %q}}
    sandbox: {hosts: ["example.com"]}
`, self, nosyVariable, web.URL))
	test, err := r.TestSource(t.Context(), "needy")
	if err != nil {
		t.Fatal(err)
	}
	address := web.Listener.Addr().String()
	for _, want := range []string{"exit status 7", "may not be reached", "npm error 403"} {
		if !strings.Contains(test.Error, want) {
			t.Errorf("the error lacks %q: %s", want, test.Error)
		}
	}
	result := r.Run(t.Context(), toolroom.Call{Tool: "needy:read"})
	if result.Error == nil || !strings.Contains(test.Error+test.Status.Reason, address) {
		t.Errorf("the next step does not name %s: %+v, %v", address, test, result.Error)
	}
}

func TestALauncherOfPackagesKnowsTheAuthoritiesOfThisMachine(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	authority, launcher := filepath.Join(folder, "company.pem"), filepath.Join(folder, "uvx")
	for path, text := range map[string]string{
		authority: "certificate", launcher: "#!/bin/sh\n[ \"$1\" = --help ] && exit\ncat \"$SSL_CERT_FILE\"; echo \" $SSL_CERT_DIR\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := withProcess(t, fmt.Sprintf(`cli: {mode: ambient}
sources:
  tool: {cli: {command: %q}, sandbox: {}}
`, launcher), "SSL_CERT_FILE="+authority, "SSL_CERT_DIR=/none")
	result := r.Run(t.Context(), toolroom.Call{Tool: "tool:uvx"})
	if result.Error != nil || strings.TrimSpace(result.Text()) != "certificate" {
		t.Errorf("it reads %q, %v", result.Text(), result.Error)
	}
}

func TestAProgramInASandboxGetsItsInputAndSaysHowItEnded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"echoes": "cat; head -c 3000000 /dev/zero | tr '\\0' x; echo problem >&2; exit 3", "ignores": "echo done", "secret": "cat $HOME/../../root/.ssh/* " + folder + "/none",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n[ \"$1\" = --help ] && exit\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r := withProcess(t, fmt.Sprintf(`cli: {mode: ambient}
sources:
  echoes:  {cli: {command: %[1]q}, sandbox: {read: [%[4]q]}}
  ignores: {cli: {command: %[2]q}, sandbox: {read: [%[4]q]}}
  gone:    {cli: {command: no-such-program}, sandbox: {}}
  unseen:  {cli: {command: %[3]q, cwd: /var}, sandbox: {}}
`, filepath.Join(folder, "echoes"), filepath.Join(folder, "ignores"), filepath.Join(folder, "secret"), folder))
	call := func(tool, stdin string) (out struct {
		Stdout, Stderr string
		ExitCode       int `json:"exit_code"`
	}, failure *toolroom.Error,
	) {
		arguments, _ := json.Marshal(map[string]string{"stdin": stdin})
		result := r.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: arguments})
		_ = json.Unmarshal(result.Value, &out) // a call that did not run has none
		return out, result.Error
	}
	if _, err := call("ignores:ignores", strings.Repeat("not read", 100_000)); err != nil {
		t.Errorf("a program that does not read its input: %v", err)
	}
	if _, err := call("echoes:echoes", "hello"); err == nil || !strings.Contains(err.Message, "exit status 3") || !strings.Contains(err.Message, "problem") {
		t.Errorf("got %v, want the exit code and what it wrote", err)
	}
	if _, err := call("gone:no-such-program", ""); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("a program that does not exist: %v", err)
	}
	if _, err := call("unseen:secret", ""); err == nil || !strings.Contains(err.Error()+err.Hints(), "sandbox") {
		t.Errorf("a folder that the sandbox does not show: %v", err)
	}
}

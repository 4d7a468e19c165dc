package server

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/token"
)

// asStranger has the request that a process of another user sends.
const asStranger = "TOOLROOM_TEST_AS_STRANGER"

// strangerRequest is a request of another user of this machine.
type strangerRequest struct {
	Method, URL, Body, Bearer string
	HTTP2                     bool
}

// TestStranger is the process of another user.
func TestStranger(t *testing.T) {
	text := os.Getenv(asStranger)
	if text == "" {
		return
	}
	var q strangerRequest
	if err := json.Unmarshal([]byte(text), &q); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), q.Method, q.URL, strings.NewReader(q.Body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if q.Bearer != "" {
		r.Header.Set("Authorization", "Bearer "+q.Bearer)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: q.HTTP2}
	res, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	if res.Header.Get("Content-Type") != "text/event-stream" { // which has no end
		if body, err = io.ReadAll(res.Body); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Printf("%d %d %d %s\n", os.Getuid(), res.StatusCode, res.ProtoMajor, strings.ReplaceAll(string(body), "\n", " "))
	os.Exit(0)
}

// sendAs sends a request from a process of another user of this machine.
func sendAs(t *testing.T, uid int, q strangerRequest) (status, proto int, body string) {
	t.Helper()
	switch {
	case os.Getuid() == 0:
	case os.Getenv("CI") == "true":
		t.Fatal("this test needs root, to be another user")
	default:
		t.Skip("needs root")
	}
	text, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open("/proc/self/exe") // other users cannot open the folder of the test's program
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	c := exec.Command("/proc/self/fd/3", "-test.run=^TestStranger$")
	c.ExtraFiles, c.Dir, c.Stderr = []*os.File{self}, "/", os.Stderr
	c.Env = []string{asStranger + "=" + string(text), "TMPDIR=/tmp"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	out, err := c.Output()
	if err != nil {
		t.Fatalf("the process of user %d: %v %s", uid, err, out)
	}
	line, _ := bufio.NewReader(strings.NewReader(string(out))).ReadString('\n')
	var is int
	if _, err := fmt.Sscan(line, &is, &status, &proto); err != nil || is != uid {
		t.Fatalf("the process of user %d says %q, %v", uid, line, err)
	}
	_, body, _ = strings.Cut(line, fmt.Sprintf(" %d %d ", status, proto))
	return status, proto, body
}

// Users of this machine without a token: one like that of a web server, and nobody.
var strangers = []int{33, 65534}

func TestAnotherUserOfTheMachineIsNotTheOperator(t *testing.T) {
	t.Parallel()
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"stranger","version":"1"}}}`
	for _, listen := range []string{"127.0.0.1:0", "[::]:0"} {
		t.Run(listen, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := dir + "/toolroom.yaml"
			if err := writeFile(file, "server: {mcp: {sse: true}, toolflow: true}\nsources: {}\n"); err != nil {
				t.Fatal(err)
			}
			r, err := app.Open(t.Context(), app.Options{Home: dir + "/home", ConfigFile: file, Workspace: dir})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Close() })
			base := servedWith(t, r, Options{Listen: listen, ConfigFile: file})
			add := `{"name":"evil","source":{"cli":{"command":"id"}}}`
			requests := []strangerRequest{
				{Method: "POST", URL: "/api/v1/sources", Body: add},
				{Method: "PUT", URL: "/api/v1/secrets/a/b", Body: `{"value":"x"}`},
				{Method: "POST", URL: "/api/v1/tokens", Body: `{"name":"x"}`},
				{Method: "POST", URL: "/api/v1/config/reload", Body: `{}`},
				{Method: "POST", URL: "/api/v1/call", Body: `{"tool":"shell:exec","arguments":{"command":"id"}}`},
				{Method: "GET", URL: "/api/v1/tools"},
				{Method: "GET", URL: "/api/v1/audit/head"},
				{Method: "GET", URL: "/metrics"},
				{Method: "GET", URL: "/"},
				{Method: "POST", URL: "/mcp", Body: initialize},
				{Method: "GET", URL: "/sse"},
				{Method: "GET", URL: "/toolflow/api/admin/tools"},
				{Method: "POST", URL: "/toolflow/mcp/", Body: initialize},
			}
			for _, uid := range strangers {
				for _, q := range requests {
					path := q.URL
					q.URL = base + path
					status, _, body := sendAs(t, uid, q)
					if status != http.StatusUnauthorized || !strings.Contains(body, fmt.Sprintf("another user of this machine (uid %d)", uid)) || !strings.Contains(body, "toolroom token create") {
						t.Errorf("user %d, %s %s: %d %s", uid, q.Method, path, status, body)
					}
				}
			}
			if status, _, _ := sendAs(t, strangers[0], strangerRequest{Method: "GET", URL: base + "/healthz"}); status != 200 {
				t.Errorf("a probe: %d", status)
			}
			bearer, _, err := token.Create(t.Context(), r.Parts().Tokens, token.Options{Name: "ann", Groups: []string{"operators"}})
			if err != nil {
				t.Fatal(err)
			}
			if status, _, body := sendAs(t, strangers[0], strangerRequest{Method: "GET", URL: base + "/api/v1/sources", Bearer: bearer}); status != 200 || strings.Contains(body, "evil") {
				t.Errorf("another user with a token: %d %s", status, body)
			}
			if res, body := send(t, "GET", base+"/api/v1/sources", ""); res.StatusCode != 200 {
				t.Errorf("the operator: %d %s", res.StatusCode, body)
			}
		})
	}
}

func TestAnotherUserOfTheMachineIsNotTheOperatorOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := httptest.NewTLSServer(nil)
	known.Close()
	cert := known.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := writeFile(dir+"/"+name, string(pem.EncodeToMemory(block))); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(dir+"/toolroom.yaml", "server: {tls: {cert: \""+dir+"/cert.pem\", key: \""+dir+"/key.pem\"}}\n"); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: dir + "/home", ConfigFile: dir + "/toolroom.yaml", Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	base := strings.Replace(servedWith(t, r, Options{}), "http:", "https:", 1)
	for _, http2 := range []bool{false, true} {
		q := strangerRequest{Method: "GET", URL: base + "/api/v1/tools", HTTP2: http2}
		if status, proto, body := sendAs(t, strangers[0], q); status != 401 || (proto == 2) != http2 || !strings.Contains(body, "another user of this machine") {
			t.Errorf("HTTP/%d: %d %s", proto, status, body)
		}
		if status, proto, body := sendAs(t, 0, q); status != 200 || (proto == 2) != http2 {
			t.Errorf("the operator over HTTP/%d: %d %s", proto, status, body)
		}
	}
}

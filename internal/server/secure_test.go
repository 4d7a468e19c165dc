package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/approval"
)

// start serves a room without tools and returns its address.
func start(t *testing.T, config string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolroom.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: filepath.Join(dir, "home"), ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Serve(ctx, r, Options{Version: "test", Started: func(at net.Addr) { started <- at.String() }})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	select {
	case at := <-started:
		return at
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

func send(t *testing.T, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

func TestNoAnswerCanBeFramed(t *testing.T) {
	t.Parallel()
	base := "http://" + start(t, "server: {listen: \"127.0.0.1:0\", url: \"https://tools.example.com\", mcp: {sse: true}}\n")
	for _, c := range []struct {
		method, path string
		headers      []string
	}{
		{"GET", "/", nil},
		{"GET", "/", []string{"Host", "evil.example"}},
		{"GET", "/", []string{"Authorization", "Bearer bad"}},
		{"POST", "/", nil},
		{"GET", "/nothing", nil},
		{"GET", "//api", nil},
		{"GET", "/healthz", nil},
		{"GET", "/readyz", nil},
		{"GET", "/metrics", nil},
		{"GET", "/mcp", nil},
		{"POST", "/mcp", nil},
		{"DELETE", "/sse", nil},
		{"GET", "/mcp/server-card", nil},
		{"GET", "/api/v1/tools", nil},
		{"GET", "/api/v1/openapi.json", nil},
		{"GET", "/api/v1/nothing", nil},
		{"GET", "/api/v1/artifacts/nothing/content", nil},
		{"POST", "/api/v1/call", nil},
		{"GET", "/api/v1/tools", []string{"Origin", "null"}},
		{"GET", approval.AnswerPath + "nothing", nil},
		{"PUT", approval.AnswerPath + "nothing", nil},
	} {
		res, _ := send(t, c.method, base+c.path, "", c.headers...)
		h := res.Header
		if policy := h.Values("Content-Security-Policy"); len(policy) != 1 || !strings.Contains(policy[0], "frame-ancestors 'none'") {
			t.Errorf("%s %s %v: %d with the policy %q", c.method, c.path, c.headers, res.StatusCode, policy)
		}
		for name, want := range map[string]string{
			"X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
		} {
			if got := h.Values(name); len(got) != 1 || got[0] != want {
				t.Errorf("%s %s %v: %d with %s %q", c.method, c.path, c.headers, res.StatusCode, name, got)
			}
		}
	}
}

func TestADecisionFromABrowserNeedsTheTokenOfThePage(t *testing.T) {
	t.Parallel()
	at := start(t, "server: {listen: \"127.0.0.1:0\", origins: [\"https://app.example.com\"]}\n")
	base := "http://" + at
	tokenIn := regexp.MustCompile(`const pageToken = '([^']+)'`)
	load := func(host string) string {
		_, page := send(t, "GET", base+"/", "", "Host", host)
		found := tokenIn.FindStringSubmatch(page)
		if found == nil || strings.Contains(page, "{{") {
			t.Fatalf("the page has no token:\n%s", page)
		}
		return found[1]
	}
	mine, byName := load(at), load("localhost:1")
	if again := load(at); again == mine {
		t.Error("two pages have the same token")
	}
	for _, c := range []struct {
		name    string
		headers []string
		refused bool
	}{
		{"a program", nil, false},
		{"the page", []string{"Origin", base, "Sec-Fetch-Site", "same-origin", "Toolroom-Page", mine}, false},
		{"the page, its token alone", []string{"Toolroom-Page", mine}, false},

		{"its origin without the token", []string{"Origin", base}, true},
		{"a form of its origin", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"}, true},
		{"a browser that tells its mode only", []string{"Sec-Fetch-Mode", "cors"}, true},
		{"a listed page", []string{"Origin", "https://app.example.com", "Sec-Fetch-Site", "cross-site"}, true},
		{"an empty token", []string{"Origin", base, "Toolroom-Page", ""}, true},
		{"a token that is changed", []string{"Origin", base, "Toolroom-Page", mine + "x"}, true},
		{"a token of nothing", []string{"Origin", base, "Toolroom-Page", "."}, true},
		{"a token for another host", []string{"Origin", base, "Toolroom-Page", byName}, true},
	} {
		for _, d := range []struct{ method, path string }{
			{"POST", "/api/v1/approvals/a1"},
			{"DELETE", "/api/v1/approvals/rules/r1"},
			{"POST", "/api/v1/policy/elevations"},
			{"DELETE", "/api/v1/policy/elevations/e1"},
		} {
			res, body := send(t, d.method, base+d.path, `{"approve": true}`, c.headers...)
			if refused := res.StatusCode == http.StatusForbidden && strings.Contains(body, "Toolroom-Page"); refused != c.refused {
				t.Errorf("%s: %s %s is answered with %d %s", c.name, d.method, d.path, res.StatusCode, body)
			}
		}
		if res, body := send(t, "GET", base+"/api/v1/approvals", "", c.headers...); res.StatusCode != http.StatusOK {
			t.Errorf("%s cannot read: %d %s", c.name, res.StatusCode, body)
		}
	}
}

func TestOnAllAddressesAPageThatWasMadeToPointHereIsNotTheOperator(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(start(t, "server: {listen: \"0.0.0.0:0\", mcp: {sse: true}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	base := "http://127.0.0.1:" + port
	evil := []string{"Host", "evil.example:" + port, "Origin", "http://evil.example:" + port}
	for path, method := range map[string]string{
		"/": "GET", "/metrics": "GET", "/mcp": "POST", "/sse": "GET", "/api/v1/call": "POST", "/api/v1/approvals": "GET", "/nothing": "GET",
	} {
		if res, body := send(t, method, base+path, "{}", evil...); res.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", method, path, res.StatusCode, body)
		}
		if path == "/sse" {
			continue // a stream that would be open for good
		}
		if res, body := send(t, method, base+path, "{}"); res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusUnauthorized {
			t.Errorf("%s %s is refused for the operator: %d %s", method, path, res.StatusCode, body)
		}
	}
}

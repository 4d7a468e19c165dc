package oauth_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/oauth"
)

func TestTheLoopbackTellsTheBrowserHowItEnded(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]string{
		"?state=s&code=1":                             "You are logged in.",
		"?state=s&error=access_denied&code=":          "The login was refused: access_denied",
		"?state=s&error=%3Cscript%3Ealert(1)%3C/s%3E": "The login was refused: &lt;script&gt;",
	} {
		l, err := oauth.NewLoopback(0)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Expect("https://login.example.com/?state=s"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // browsers repeat requests
			resp, err := http.Get(l.Redirect() + query)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			h := resp.Header
			if !strings.Contains(string(body), want) || resp.StatusCode != http.StatusOK || h.Get("X-Frame-Options") != "DENY" ||
				h.Get("Content-Type") != "text/html; charset=utf-8" || h.Get("Content-Security-Policy") != "default-src 'none'; frame-ancestors 'none'" {
				t.Errorf("%s: %d, %s, %v", query, resp.StatusCode, body, h)
			}
		}
		if back, err := l.Wait(t.Context()); err != nil || !strings.HasSuffix(back, query) {
			t.Errorf("%q, %v", back, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestTheLoopbackAnswersToItsOwnNameOnly(t *testing.T) {
	t.Parallel()
	l, err := oauth.NewLoopback(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Expect("https://login.example.com/?state=s"); err != nil {
		t.Fatal(err)
	}
	// The name of a page may have been pointed at this machine.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.Redirect()+"?state=s&code=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example"
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden || !strings.Contains(string(body), l.Redirect()) {
		t.Errorf("%d, %s", resp.StatusCode, body)
	}
	done, end := context.WithCancel(t.Context())
	end()
	if back, err := l.Wait(done); !errors.Is(err, context.Canceled) {
		t.Errorf("%q, %v", back, err)
	}
	if err := l.Expect("http://[::1"); err == nil {
		t.Error("an address that is no URL")
	}
	_, text, _ := net.SplitHostPort(parse(t, l.Redirect()).Host)
	port, _ := strconv.Atoi(text)
	if _, err := oauth.NewLoopback(port); err == nil {
		t.Error("two listen on one port")
	}
}

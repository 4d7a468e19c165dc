//go:build linux

package remote_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/process"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
	"github.com/toolroom/toolroom/sandbox"
)

// newRunner returns the handler of a runner in this process whose clock is ahead.
func newRunner(t *testing.T, ahead time.Duration) http.Handler {
	t.Helper()
	r := remote.NewRunner(remote.RunnerOptions{
		Driver: process.New("/no/such/guest", nil), Keys: []remote.SigningKey{{Name: "ann", Secret: []byte(secret)}},
		Now: func() time.Time { return time.Now().Add(ahead) },
	})
	t.Cleanup(func() { r.Close() })
	return r.Handler()
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestErrorsDistinguishAWrongSecretFromAWrongClock(t *testing.T) {
	t.Parallel()
	wrong := func(context.Context) (string, error) { return "wrong", nil }
	for _, tt := range []struct {
		name    string
		options remote.Options
		message string
		hint    string
	}{
		{"a wrong secret", remote.Options{URL: serve(t, newRunner(t, 0)), Secret: wrong}, "matches no secret known here", "--secret-file"},
		{"a clock behind", remote.Options{URL: serve(t, newRunner(t, 10*time.Minute)), Secret: secretOf}, "the clock of this machine is 10m0s behind that of the runner", "NTP"},
		{"a clock ahead", remote.Options{URL: serve(t, newRunner(t, -10*time.Minute)), Secret: secretOf}, "the clock of this machine is 10m0s ahead of that of the runner", "NTP"},
		{"a wrong clock and a wrong secret", remote.Options{URL: serve(t, newRunner(t, 10*time.Minute)), Secret: wrong}, "matches no secret known here", "--secret-file"},
		{"a secret that is not set", remote.Options{URL: serve(t, newRunner(t, 0)), Secret: func(context.Context) (string, error) { return "", errors.New("it is not set") }}, "it is not set", "toolroom secret set"},
		{"a runner whose driver does not work", remote.Options{URL: serve(t, newRunner(t, 0)), Secret: secretOf}, "the process sandbox is not available here", ""},
		{"plain HTTP to another machine", remote.Options{URL: "http://192.0.2.1:7071", Secret: secretOf}, "lets anyone on the network read", "plain: true"},
		{"no URL", remote.Options{URL: "runner:7071", Secret: secretOf}, "is not the URL", "https://HOST:7071"},
		{"another server", remote.Options{URL: serve(t, http.NotFoundHandler()), Secret: secretOf}, "404", "leads to a runner"},
		{"a server that redirects", remote.Options{URL: serve(t, http.RedirectHandler("http://192.0.2.1/", http.StatusTemporaryRedirect)), Secret: secretOf}, "307", "leads to a runner"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := remote.New(tt.options).Start(t.Context(), sandbox.Spec{BestEffort: true})
			e := toolroom.AsError(err)
			if e == nil || e.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(e.Message, tt.message) || !strings.Contains(e.Hints(), tt.hint) {
				t.Errorf("got %v\nhint %q", err, e.Hints())
			}
		})
	}
}

func TestOnlyTemporaryFailuresAreRepeated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		tries  int64
	}{
		{"a gateway whose runner is away", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 5},
		{"a connection that breaks", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 5},
		{"a refusal", func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, 1},
		{"too many requests", func(w http.ResponseWriter) { w.WriteHeader(http.StatusTooManyRequests) }, 1},
		{"something else", func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") }, 1},
		{"an endless answer", func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, remote.MaxBody+1)) }, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var orders atomic.Int64
			nonces := make(chan string, 10)
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					orders.Add(1)
					nonces <- r.Header.Get(remote.HeaderNonce)
				}
				tt.answer(w)
			}))
			_, err := remote.New(remote.Options{URL: url, Secret: secretOf}).Start(t.Context(), sandbox.Spec{})
			if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
				t.Errorf("the start ended with %v", err)
			}
			if orders.Load() != tt.tries {
				t.Errorf("the start was tried %d times, want %d", orders.Load(), tt.tries)
			}
			close(nonces)
			seen := map[string]bool{}
			for n := range nonces {
				if seen[n] {
					t.Error("a request was sent again with the same signature")
				}
				seen[n] = true
			}
		})
	}
}

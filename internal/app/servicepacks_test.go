package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/test/builtintest"
	"github.com/toolroom/toolroom/test/double"
)

// hostile is a service that answers as badly as it is told to.
type hostile struct {
	*httptest.Server
	mode  atomic.Pointer[string]
	login http.Handler
	held  atomic.Int64 // requests that hang
}

const (
	garbage = "garbage"
	endless = "endless"
	hanging = "hanging"
	broken  = "broken"
	moved   = "moved"
)

func newHostile(t *testing.T) *hostile {
	h := &hostile{login: double.Google()}
	h.set(garbage)
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hostile) set(mode string) { h.mode.Store(&mode) }

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/o/") || r.URL.Path == "/token" {
		h.login.ServeHTTP(w, r)
		return
	}
	switch *h.mode.Load() {
	case garbage:
		fmt.Fprint(w, "\x00<html>{]")
	case endless:
		piece := []byte(strings.Repeat("[", 64<<10))
		for r.Context().Err() == nil {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	case hanging:
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client went away
		h.held.Add(1)
		<-r.Context().Done()
		h.held.Add(-1)
	case broken:
		panic(http.ErrAbortHandler)
	case moved:
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusTemporaryRedirect)
	}
}

// serviceRoom is a room with all packs that need a service, which is the hostile one.
func serviceRoom(t *testing.T, h *hostile, more string) *workshop {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("current-context: c\nclusters: [{name: k, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: k}}]\n", h.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorkshop(t, fmt.Sprintf(`builtin:
  storage: {url: %[1]q, bucket: docs, access_key: k, secret_key: s}
  k8s: {kubeconfig: %[2]q}
  media: {vision: {model: m, url: %[1]q}, speech: {model: m, url: %[1]q}}
  google: {client_id: id, client_secret: hush-hush, url: %[1]q}
  message: {channels: {hook: {provider: webhook, url: %[1]q}}}
%[3]s`, h.URL, kubeconfig, more))
	w.put("report.pdf", "text")
	w.put("chart.png", "\x89PNG\r\n\x1a\n")
	w.put("voice.ogg", "OggS")
	return w
}

// serviceCalls are calls of the tools that ask a service: their examples.
func serviceCalls() []toolroom.Call {
	var calls []toolroom.Call
	for _, p := range builtintest.Packs() {
		if !builtintest.Optional(p.Name) {
			continue
		}
		for _, tool := range p.Tools {
			if ns := tool.ID.Namespace; ns != "screen" && ns != "camera" && ns != "media" {
				calls = append(calls, toolroom.Call{Tool: tool.ID.String(), Arguments: tool.Examples[0].Arguments, Session: "s"})
			}
		}
	}
	return calls
}

// logsIn lets the operator log in to Google's double.
func (w *workshop) logsIn() {
	w.t.Helper()
	err := w.Login(w.t.Context(), "google", toolroom.Identity{}, "http://127.0.0.1:1/callback", func(ctx context.Context, address string) (string, error) {
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", err
		}
		response, err := client.Do(r)
		if err != nil {
			return "", err
		}
		return response.Header.Get("Location"), response.Body.Close()
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// Whatever a service answers, a tool ends soon, with a bounded result and an error that says
// what is wrong; it follows no redirect.
func TestToolsOfServicesSurviveHostileAnswers(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	w := serviceRoom(t, h, "")
	w.logsIn()
	for _, mode := range []string{garbage, endless, broken, moved} {
		h.set(mode)
		for _, call := range serviceCalls() {
			if mode == broken && strings.HasPrefix(call.Tool, "minio:") {
				continue // it tries for a while; its own tests break its connections
			}
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			began := time.Now()
			r := w.Run(ctx, call)
			cancel()
			switch {
			case r.OK() && call.Tool != "k8s:logs" && call.Tool != "minio:share" && call.Tool != "minio:ingest" && call.Tool != "drive:read": // they take any bytes
				t.Errorf("%s: %s is fine with %.200s", mode, call.Tool, r.Text())
			case !r.OK() && (r.Error.Code == toolroom.CodeInternal || r.Error.Message == ""):
				t.Errorf("%s: %s: %+v", mode, call.Tool, r.Error)
			case len(r.Text()) > 100_000 || time.Since(began) > 35*time.Second:
				t.Errorf("%s: %s has %d bytes after %s", mode, call.Tool, len(r.Text()), time.Since(began))
			}
		}
	}
}

// A cancelled call ends its request.
func TestToolsOfServicesAreCancelled(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	h.set(hanging)
	w := serviceRoom(t, h, "")
	w.logsIn()
	for _, call := range serviceCalls() {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan *toolroom.Result, 1)
		go func() { done <- w.Run(ctx, call) }()
		for end := time.Now().Add(20 * time.Second); h.held.Load() == 0 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		if h.held.Load() == 0 {
			t.Errorf("%s made no request", call.Tool)
		}
		cancel()
		if r := <-done; r.Status != toolroom.StatusCancelled {
			t.Errorf("%s: %s %+v", call.Tool, r.Status, r.Error)
		}
		for end := time.Now().Add(20 * time.Second); h.held.Load() > 0; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: the request goes on after its call was cancelled", call.Tool)
			}
		}
	}
}

// Policy and schemas hold for these tools, and what a receipt expects is where they connect.
func TestToolsOfServicesThroughThePipeline(t *testing.T) {
	t.Parallel()
	h := newHostile(t)
	w, denying := serviceRoom(t, h, ""), serviceRoom(t, h, `tools: {deny: ["*"]}`)
	host := strings.TrimPrefix(h.URL, "http://")
	for _, call := range serviceCalls() {
		if r := denying.Run(t.Context(), call); r.Status != toolroom.StatusDenied {
			t.Errorf("%s is not denied: %+v", call.Tool, r)
		}
		if r := w.call(call.Tool, map[string]any{"no such argument": 1}); r.OK() || r.Error.Code != toolroom.CodeInvalidArguments {
			t.Errorf("%s takes an unknown argument: %+v", call.Tool, r.Error)
		}
		r := w.Run(t.Context(), call)
		rec, err := w.Receipt(t.Context(), r.Call)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(rec.Expected, func(e toolroom.Effect) bool { return e.Kind == toolroom.EffectHost && strings.Contains(e.Target, host) }) {
			t.Errorf("%s expects %v, not a connection to %s", call.Tool, rec.Expected, host)
		}
	}
	missing := []string{"minio:share", "k8s:pods", "image:analyze", "gmail:search", "camera:capture"}
	for _, id := range builtinTools(t, newWorkshop(t, "").App, toolroom.Identity{}) {
		if slices.Contains(missing, id) {
			t.Errorf("a room without a section for it lists %s", id)
		}
	}
	if r := w.Run(t.Context(), toolroom.Call{Tool: "media:send", Arguments: toolroom.Args{"path": "chart.png"}.JSON()}); !r.OK() || len(r.Content) < 2 {
		t.Errorf("%+v", r)
	}
}

// What logs in to a cluster is in no secret of Toolroom, and a server may repeat it.
func TestTheTokenOfAKubeconfigIsRedacted(t *testing.T) {
	t.Parallel()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"kind": "Status", "message": "I got %s"}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(echo.Close)
	const token = "eyJhbGciOi-the-token-of-a-kubeconfig"
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("current-context: c\nclusters: [{name: k, cluster: {server: %q}}]\nusers: [{name: u, user: {token: %s}}]\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n", echo.URL, token)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorkshop(t, fmt.Sprintf("builtin: {k8s: {kubeconfig: %q}}", kubeconfig))
	r := w.call("k8s:pods", map[string]any{})
	if r.Error == nil || !strings.Contains(r.Error.Message, "I got") || strings.Contains(r.Error.Message, token) {
		t.Errorf("%+v", r.Error)
	}
}

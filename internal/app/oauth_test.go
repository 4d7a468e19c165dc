package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
)

// protected is an MCP server that wants a token, and its authorization server.
func protected(t *testing.T) *httptest.Server {
	const token = "token-that-nobody-may-see"
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"issuer": server.URL, "authorization_endpoint": server.URL + "/authorize", "token_endpoint": server.URL + "/token",
			"registration_endpoint": server.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		})
	})
	mux.HandleFunc("/register", func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]any{"client_id": "c"}) })
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"access_token": token, "token_type": "Bearer"})
	})
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, _ := io.ReadAll(r.Body)
		json.Unmarshal(body, &m)
		result := `{}`
		switch m.Method {
		case "server/discover":
			result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		case "tools/list":
			result = `{"tools":[{"name":"leak","inputSchema":{"type":"object"}}]}`
		case "tools/call": // it shows what it was sent
			result = fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	})
	return server
}

func TestALoginServesItsIdentityAloneAndItsTokenIsKnownToTheRedactor(t *testing.T) {
	t.Parallel()
	server := protected(t)
	file := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(file, []byte("sources: {far: {mcp: {url: \""+server.URL+"/mcp\"}}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	options := app.Options{Home: t.TempDir(), ConfigFile: file, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	r, err := app.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.Close() }()
	if test, err := r.TestSource(t.Context(), "far"); err != nil || test.State != "waiting for authorisation" || !strings.Contains(test.Reason, "toolroom sources login far") {
		t.Fatalf("before the login: %+v, %v", test, err)
	}
	err = r.Login(t.Context(), "far", toolroom.Identity{}, "http://127.0.0.1:1/callback", func(_ context.Context, address string) (string, error) {
		u, err := url.Parse(address)
		if err != nil {
			return "", err
		}
		return u.Query().Get("redirect_uri") + "?code=x&state=" + u.Query().Get("state"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if test, err := r.TestSource(t.Context(), "far"); err != nil || test.State != "ready" || test.Tools != 1 {
		t.Fatalf("after the login: %+v, %v", test, err)
	}
	shows := func(when string) {
		t.Helper()
		result := r.Run(t.Context(), toolroom.Call{Tool: "far:leak", Arguments: json.RawMessage(`{}`)})
		if result.Status != toolroom.StatusOK {
			t.Errorf("%s the call answered %+v", when, result.Error)
		}
		receipts, err := r.Receipts(t.Context(), toolroom.ReceiptQuery{Limit: 10})
		if err != nil || len(receipts) == 0 {
			t.Fatalf("%d receipts: %v", len(receipts), err)
		}
		shown, err := json.Marshal(map[string]any{"result": result, "receipts": receipts})
		if err != nil {
			t.Fatal(err)
		}
		if got := string(shown) + log.String(); strings.Contains(got, "token-that-nobody-may-see") || !strings.Contains(got, "Bearer [secret ") {
			t.Errorf("%s the token is not redacted: %s", when, got)
		}
	}
	shows("after the login")
	r.Close()
	if r, err = app.Open(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	shows("after a restart")
	result := r.Run(t.Context(), toolroom.Call{Tool: "far:leak", Arguments: json.RawMessage(`{}`), Identity: toolroom.Identity{Subject: "ann"}})
	if result.Error == nil || result.Error.Code != toolroom.CodeUnauthenticated || result.Error.Hint != "a person logs in with: toolroom sources login far --as ann" {
		t.Errorf("somebody without a login got %+v", result.Error)
	}
}

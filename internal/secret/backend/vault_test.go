package backend_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

// The answers are those of OpenBao 2.7.2, with another token in the login, and a
// word that no error may repeat in the refusal; test/stores asks a real server.
const (
	answer  = `{"request_id":"7dda756e-8fea-c555-602f-06fb729acf0d","lease_id":"","renewable":false,"lease_duration":0,"data":{"data":{"token":"value-1"},"metadata":{"created_time":"2026-11-21T07:55:50.439771379Z","custom_metadata":null,"deletion_time":"","destroyed":false,"version":1}},"wrap_info":null,"warnings":null,"auth":null}`
	login   = `{"request_id":"cb27469e-2210-a571-54bd-c7ee7d2e3355","lease_id":"","renewable":false,"lease_duration":0,"data":null,"wrap_info":null,"warnings":null,"auth":{"client_token":"s.login","accessor":"mIWw0EV9ffJyIZkWV4vm6VhZ","policies":["default"],"token_policies":["default"],"metadata":{"role_name":"t"},"lease_duration":2764800,"renewable":true,"entity_id":"5e20b1ee-180b-d348-7a82-3e1cf2617930","token_type":"service","orphan":true,"mfa_requirement":null,"num_uses":0}}`
	refused = `{"errors":["permission denied","hunter22"]}`
)

// server takes one token at a time, and counts logins.
type server struct {
	*httptest.Server
	valid  atomic.Value
	logins atomic.Int64
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.valid.Store("s.login")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		say := func(status int, text string) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
		switch {
		case r.URL.Path == "/v1/auth/kubernetes/login":
			s.logins.Add(1)
			body, _ := io.ReadAll(r.Body)
			if string(body) != `{"jwt":"account-token","role":"toolroom"}` {
				say(http.StatusBadRequest, refused)
				return
			}
			say(http.StatusOK, login)
		case r.Header.Get("X-Vault-Token") != s.valid.Load() || r.Header.Get("X-Vault-Namespace") != "team":
			say(http.StatusForbidden, refused)
		case r.URL.Path == "/v1/auth/token/lookup-self":
			say(http.StatusOK, `{"data":{}}`)
		case strings.HasSuffix(r.URL.Path, "/denied"):
			say(http.StatusForbidden, refused)
		case r.URL.Path == "/v1/kv/data/apps/gh":
			say(http.StatusOK, answer)
		case strings.HasSuffix(r.URL.Path, "/sealed"):
			say(http.StatusServiceUnavailable, refused)
		case strings.HasSuffix(r.URL.Path, "/moved"):
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		case strings.HasSuffix(r.URL.Path, "/broken"):
			say(http.StatusOK, `{"data":{"data":{"token":"hunter22`)
		default:
			say(http.StatusNotFound, `{"errors":[]}`)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) store(o backend.VaultOptions) *backend.Vault {
	o.Address, o.Namespace, o.Mount, o.Path = s.URL+"/", "team", "/kv/", "apps/{scope}"
	return backend.NewVault(o)
}

func TestAFieldOfASecretIsRead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	store := s.store(backend.VaultOptions{Token: func(context.Context) (string, error) { return "s.login", nil }})
	for _, c := range []struct {
		ref  secret.Ref
		want string
		code toolroom.Code
	}{
		{secret.Ref{Scope: "gh", Name: "token"}, "value-1", ""},
		{secret.Ref{Scope: "gh", Name: "none"}, "", toolroom.CodeNotFound},
		{secret.Ref{Scope: "none", Name: "token"}, "", toolroom.CodeNotFound},
		{secret.Ref{Scope: "gh", Name: "token", Owner: "ann"}, "", toolroom.CodeUnsupported},
		{secret.Ref{Scope: "sealed", Name: "token"}, "", toolroom.CodeUpstreamUnavailable},
		{secret.Ref{Scope: "moved", Name: "token"}, "", toolroom.CodeUpstreamError},
		{secret.Ref{Scope: "broken", Name: "token"}, "", toolroom.CodeUpstreamError},
	} {
		got, err := store.Get(t.Context(), c.ref)
		if got != c.want || toolroom.CodeOf(err) != c.code || err != nil && strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%+v: got %q, %v", c.ref, got, err)
		}
	}
}

func TestALoginIsKeptUntilItsTokenIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("account-token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	store := s.store(backend.VaultOptions{Kubernetes: &backend.VaultKubernetes{Role: "toolroom", TokenFile: file}})
	get := func(code toolroom.Code, logins int64) {
		t.Helper()
		_, err := store.Get(t.Context(), secret.Ref{Scope: "gh", Name: "token"})
		if toolroom.CodeOf(err) != code || s.logins.Load() != logins {
			t.Errorf("got %v after %d logins, want %q after %d", err, s.logins.Load(), code, logins)
		}
	}
	get("", 1)
	get("", 1)
	for range 5 { // the token is right, the path is denied
		_, err := store.Get(t.Context(), secret.Ref{Scope: "denied", Name: "token"})
		if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || s.logins.Load() != 1 {
			t.Errorf("got %v after %d logins", err, s.logins.Load())
		}
	}
	s.valid.Store("s.another")
	get(toolroom.CodeUnauthenticated, 2)
	s.valid.Store("s.login")
	get("", 2)
}

func TestAServerThatIsNotThereIsNamedWithoutWhatItsAddressHides(t *testing.T) {
	t.Parallel()
	store := backend.NewVault(backend.VaultOptions{Address: "http://127.0.0.1:1", Token: func(context.Context) (string, error) { return "hunter22", nil }})
	_, err := store.Get(t.Context(), secret.Ref{Scope: "gh", Name: "token"})
	if toolroom.CodeOf(err) != toolroom.CodeUpstreamUnavailable || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("got %v", err)
	}
}

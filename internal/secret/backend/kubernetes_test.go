package backend_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/secret/backend"
)

// cluster answers as the API server does to a service account that may read the
// secrets gh and users-ann of the namespace tools.
func cluster(t *testing.T) (s *backend.Kubernetes, tokenFile string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := func(code int) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(`{"kind":"Status","message":"hunter22"}`))
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer account-token":
			status(http.StatusUnauthorized)
		case r.URL.EscapedPath() == "/api/v1/namespaces/tools/secrets/gh":
			_, _ = w.Write([]byte(`{"kind":"Secret","type":"Opaque","data":{"token":"dmFsdWUtMQ=="}}`))
		case r.URL.EscapedPath() == "/api/v1/namespaces/tools/secrets/users-ann":
			_, _ = w.Write([]byte(`{"kind":"Secret","data":{"token":"dmFsdWUtb2YtYW5u"}}`))
		case strings.HasSuffix(r.URL.Path, "/locked"):
			status(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/broken"):
			_, _ = w.Write([]byte(`{"data":{"token":"hunter22`))
		default:
			status(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	tokenFile = filepath.Join(dir, "token")
	write(t, tokenFile, "account-token\n")
	write(t, filepath.Join(dir, "ca.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	return backend.NewKubernetes(backend.KubernetesOptions{
		Address: server.URL, Namespace: "tools", Own: "users-{identity}", TokenFile: tokenFile, CAFile: filepath.Join(dir, "ca.crt"),
	}), tokenFile
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAKeyOfASecretIsRead(t *testing.T) {
	t.Parallel()
	s, tokenFile := cluster(t)
	for _, c := range []struct {
		scope, name, owner, want string
		code                     toolroom.Code
	}{
		{"gh", "token", "", "value-1", ""},
		{"gh", "token", "ann", "value-of-ann", ""},
		{"gh", "token", "../gh", "", toolroom.CodeNotFound},
		{"gh", "token", "..", "", toolroom.CodeDenied},
		{"gh", "other", "", "", toolroom.CodeNotFound},
		{"none", "token", "", "", toolroom.CodeNotFound},
		{"locked", "token", "", "", toolroom.CodeUnauthenticated},
		{"broken", "token", "", "", toolroom.CodeUpstreamError},
	} {
		got, err := s.Get(t.Context(), secret.Ref{Scope: c.scope, Name: c.name, Owner: c.owner})
		if got != c.want || toolroom.CodeOf(err) != c.code || err != nil && strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
	write(t, tokenFile, "over")
	if _, err := s.Get(t.Context(), secret.Ref{Scope: "gh", Name: "token"}); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
		t.Errorf("the token file was not read again: %v", err)
	}
}

func TestWithoutTheAuthorityOfTheClusterNothingIsSent(t *testing.T) {
	t.Parallel()
	asked := false
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), "account-token")
	write(t, filepath.Join(dir, "ca.crt"), "no certificate")
	s := backend.NewKubernetes(backend.KubernetesOptions{Address: server.URL, Namespace: "tools", TokenFile: filepath.Join(dir, "token"), CAFile: filepath.Join(dir, "ca.crt")})
	if _, err := s.Get(t.Context(), secret.Ref{Scope: "gh", Name: "token"}); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments || asked {
		t.Errorf("got %v, asked %v", err, asked)
	}
}

package k8s

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/source"
)

// server is an API server made from the documentation of Kubernetes: Tables, Status objects
// and logs, for the token "good"; the token "weak" may see nothing.
func server(t *testing.T) *httptest.Server {
	t.Helper()
	refuse := func(w http.ResponseWriter, code int, reason, message string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code})
	}
	mux := http.NewServeMux()
	table := func(w http.ResponseWriter, r *http.Request, columns []string, rows ...[]any) {
		if !strings.Contains(r.Header.Get("Accept"), "as=Table") {
			refuse(w, 406, "NotAcceptable", "only Tables here")
			return
		}
		var defined []map[string]any
		for _, c := range columns {
			defined = append(defined, map[string]any{"name": c})
		}
		var out []map[string]any
		for _, row := range rows {
			out = append(out, map[string]any{"cells": row[1:], "object": map[string]any{"metadata": map[string]any{"name": row[1], "namespace": row[0]}}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Table", "columnDefinitions": defined, "rows": out})
	}
	pods := func(w http.ResponseWriter, r *http.Request) {
		rows := [][]any{{"shop", "web-1", "1/1", "Running", "0", "5d", "10.0.0.1", "node-1"}, {"shop", "web-2", "0/1", "CrashLoopBackOff", "12 (3m ago)", "5d", "10.0.0.2", "node-1"}}
		if r.URL.Query().Get("labelSelector") == "app=none" {
			rows = nil
		}
		table(w, r, []string{"Name", "Ready", "Status", "Restarts", "Age", "IP", "Node"}, rows...)
	}
	mux.HandleFunc("GET /api/v1/pods", pods)
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods", pods)
	mux.HandleFunc("GET /apis/apps/v1/namespaces/shop/deployments", func(w http.ResponseWriter, r *http.Request) {
		table(w, r, []string{"Name", "Ready", "Up-to-date", "Available", "Age", "Containers", "Images"}, []any{"shop", "web", "2/3", 3, 2, "9d", "web", "shop/web:4"})
	})
	mux.HandleFunc("GET /api/v1/namespaces/shop/pods/{pod}/log", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		switch {
		case r.PathValue("pod") == "two" && query.Get("container") == "":
			refuse(w, 400, "BadRequest", "a container name must be specified for pod two, choose one of: [app proxy]")
		case r.PathValue("pod") != "web-1" && r.PathValue("pod") != "two":
			refuse(w, 404, "NotFound", fmt.Sprintf("pods %q not found", r.PathValue("pod")))
		case query.Get("container") == "short":
			fmt.Fprint(w, "line 1\nline 2\nline 3\n")
		case query.Get("follow") == "true":
			for i := range 1000 {
				fmt.Fprintf(w, "line %d\n", i)
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		default:
			fmt.Fprintf(w, "tail %s since %s previous %s\n", query.Get("tailLines"), query.Get("sinceSeconds"), query.Get("previous"))
		}
	})
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			mux.ServeHTTP(w, r)
		case "Bearer weak":
			refuse(w, 403, "Forbidden", `pods is forbidden: User "system:serviceaccount:shop:bot" cannot list resource "pods" in API group "" in the namespace "shop"`)
		default:
			refuse(w, 401, "Unauthorized", "Unauthorized")
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// config returns a kubeconfig for a server and a token.
func config(s *httptest.Server, token string) string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: k, cluster: {server: %q, certificate-authority-data: %s}}],
users: [{name: u, user: {token: %s}}],
contexts: [{name: c, context: {cluster: k, user: u, namespace: shop}}]}`, s.URL, base64.StdEncoding.EncodeToString(ca), token)
}

func pack(t *testing.T, text string) *builtin.Pack {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Pack(Options{Kubeconfig: path, OperatorDial: func(*url.URL) func(context.Context, string, string) (net.Conn, error) {
		return new(net.Dialer).DialContext
	}})
}

func call(ctx context.Context, p *builtin.Pack, tool string, args map[string]any, emit func(toolroom.Event)) (*source.Output, error) {
	if emit == nil {
		emit = func(toolroom.Event) {}
	}
	return p.Source().Call(ctx, &source.Request{Call: "c", Tool: toolroom.MustParseID(tool), Arguments: builtin.Arguments(args), Emit: emit})
}

func TestTheToolsShowWhatKubectlShows(t *testing.T) {
	t.Parallel()
	p := pack(t, config(server(t), "good"))
	if problem := p.Check(t.Context()); problem != nil {
		t.Error(problem)
	}
	for _, tt := range []struct {
		tool string
		args map[string]any
		want []string
	}{
		{"k8s:pods", map[string]any{}, []string{"web-2  0/1    CrashLoopBackOff  12 (3m ago)  5d   node-1"}},
		{"k8s:pods", map[string]any{"namespace": "*", "limit": 1}, []string{"web-1", "There are more"}},
		{"k8s:pods", map[string]any{"selector": "app=none"}, []string{"There are no Pods."}},
		{"k8s:deployments", map[string]any{"namespace": "shop"}, []string{"web   2/3    3           2          9d   shop/web:4"}},
		{"k8s:logs", map[string]any{"pod": "web-1"}, []string{"tail 100 since  previous \n"}},
		{"k8s:logs", map[string]any{"pod": "two", "container": "app", "lines": 5, "since": "1h30m", "previous": true}, []string{"tail 5 since 5400 previous true\n"}},
	} {
		out, err := call(t.Context(), p, tt.tool, tt.args, nil)
		if err != nil {
			t.Errorf("%s %v: %v", tt.tool, tt.args, err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(out.Content[0].Text, want) {
				t.Errorf("%s %v: %q has no %q", tt.tool, tt.args, out.Content[0].Text, want)
			}
		}
	}
}

func TestALogIsFollowedUntilItsTimeOrACancel(t *testing.T) {
	t.Parallel()
	p := pack(t, config(server(t), "good"))
	out, err := call(t.Context(), p, "k8s:logs", map[string]any{"pod": "web-1", "follow": true, "seconds": 1}, nil)
	if err != nil || bytes.Count(out.Value, []byte("line")) < 2 {
		t.Fatalf("%v", err)
	}
	// A server may end the log as if it were whole when it sees the cancel: so does the container short.
	for _, container := range []string{"app", "short"} {
		ctx, cancel := context.WithCancel(t.Context())
		lines := 0
		_, err = call(ctx, p, "k8s:logs", map[string]any{"pod": "web-1", "container": container, "follow": true, "seconds": 600}, func(toolroom.Event) {
			if lines++; lines == 3 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || lines > 100 {
			t.Errorf("%s: %v after %d lines", container, err, lines)
		}
	}
}

func TestRefusalsAreToldInWords(t *testing.T) {
	t.Parallel()
	s := server(t)
	for name, tt := range map[string]struct {
		config, tool string
		args         map[string]any
		code         toolroom.Code
		want         string
	}{
		"RBAC":              {config(s, "weak"), "k8s:pods", map[string]any{}, toolroom.CodeDenied, "does not let system:serviceaccount:shop:bot list pods in the namespace shop"},
		"what permits it":   {config(s, "weak"), "k8s:pods", map[string]any{}, toolroom.CodeDenied, "kubectl create rolebinding toolroom-pods --role=toolroom-pods --serviceaccount=shop:bot -n shop"},
		"a bad token":       {config(s, "bad"), "k8s:pods", map[string]any{}, toolroom.CodeUnauthenticated, "expired"},
		"a missing Pod":     {config(s, "good"), "k8s:logs", map[string]any{"pod": "none"}, toolroom.CodeNotFound, `pods "none" not found`},
		"two containers":    {config(s, "good"), "k8s:logs", map[string]any{"pod": "two"}, toolroom.CodeInvalidArguments, "[app proxy]"},
		"a since of zero":   {config(s, "good"), "k8s:logs", map[string]any{"pod": "two", "since": "0s"}, toolroom.CodeInvalidArguments, "10m"},
		"no YAML":           {"{", "k8s:pods", map[string]any{}, toolroom.CodeUnsupported, "cannot be used"},
		"no context":        {"{}", "k8s:pods", map[string]any{}, toolroom.CodeUnsupported, "no cluster for the context"},
		"an exec plugin":    {strings.Replace(config(s, "x"), "token: x", "exec: {command: touch}", 1), "k8s:pods", map[string]any{}, toolroom.CodeUnsupported, "kubectl create token"},
		"another authority": {strings.Replace(config(s, "good"), "certificate-authority-data: ", "tls-server-name: other.example, certificate-authority-data: ", 1), "k8s:pods", map[string]any{}, toolroom.CodeUpstreamUnavailable, "cannot be reached"},
	} {
		_, err := call(t.Context(), pack(t, tt.config), tt.tool, tt.args, nil)
		var known *toolroom.Error
		if !errors.As(err, &known) || known.Code != tt.code || !strings.Contains(known.Message+" "+known.Hint, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A caller's kubeconfig leads to any server, and what it answers is shown to people.
func TestNoServerPutsACommandIntoAHint(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		`User "$(id)" cannot list resource "pods" in API group "" in the namespace "shop"`,
		`User "ann" cannot list;id resource "pods" in API group "" in the namespace "shop"`,
		`User "ann" cannot list resource "pods; id" in API group "" in the namespace "shop"`,
		`User "ann" cannot list resource "pods" in API group "a|id" in the namespace "shop"`,
		"User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"`id`\"",
	} {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "message": message})
		}))
		t.Cleanup(s.Close)
		_, err := call(t.Context(), pack(t, config(s, "good")), "k8s:pods", map[string]any{}, nil)
		var known *toolroom.Error
		if !errors.As(err, &known) || known.Code != toolroom.CodeDenied || strings.Contains(known.Hint, "kubectl") {
			t.Errorf("%s: %v (%s)", message, err, known.Hint)
		}
	}
}

func TestACallersKubeconfigReadsNoFilesOfThisMachine(t *testing.T) {
	t.Parallel()
	s := server(t)
	texts := map[string]string{
		"ann": config(s, "good"), "bob": config(s, "weak"),
		"eve": strings.Replace(config(s, "x"), "token: x", "tokenFile: /etc/hostname", 1),
	}
	p := Pack(Options{
		Secret: func(_ context.Context, who toolroom.Identity) (string, error) { return texts[who.Subject], nil }, CallerDial: new(net.Dialer).DialContext,
	})
	for who, want := range map[string]toolroom.Code{"ann": "", "bob": toolroom.CodeDenied, "eve": toolroom.CodeUnsupported} {
		_, err := p.Source().Call(t.Context(), &source.Request{
			Tool: toolroom.MustParseID("k8s:pods"), Arguments: []byte("{}"), Identity: toolroom.Identity{Subject: who}, Emit: func(toolroom.Event) {},
		})
		if (err == nil) != (want == "") || err != nil && toolroom.CodeOf(err) != want {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestAPodUsesItsServiceAccount(t *testing.T) {
	t.Parallel()
	s := server(t)
	dir := t.TempDir()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	for name, text := range map[string]string{"token": "old\n", "namespace": "shop", "ca.crt": string(ca)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	p := Pack(Options{
		Files: Files{Kubeconfig: filepath.Join(dir, "none"), Host: host, Port: port, Account: dir},
		OperatorDial: func(*url.URL) func(context.Context, string, string) (net.Conn, error) {
			return new(net.Dialer).DialContext
		},
	})
	if _, err := call(t.Context(), p, "k8s:pods", map[string]any{}, nil); toolroom.CodeOf(err) != toolroom.CodeUnauthenticated {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("good\n"), 0o600); err != nil { // as the cluster does
		t.Fatal(err)
	}
	if _, err := call(t.Context(), p, "k8s:pods", map[string]any{}, nil); err != nil {
		t.Error(err)
	}
	nothing := Pack(Options{})
	if problem := nothing.Check(t.Context()); problem == nil || !strings.Contains(problem.Hint, "builtin: {k8s:") {
		t.Errorf("got %v", problem)
	}
}

package builtintest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/test/double"
)

// TestMain also runs helpers and guests, and the process that strace watches, because the
// test binary is those, too.
func TestMain(m *testing.M) {
	if code, ok := app.RunHelper(os.Args[1:]); ok {
		os.Exit(code)
	}
	if base := os.Getenv(watchedBase); base != "" {
		os.Exit(runWatched(base))
	}
	os.Exit(m.Run())
}

// services answers for everything that the packs ask: an S3 server, a Kubernetes API server,
// models, a search provider, a webhook, Google and a web site. Below /slow/ it hangs.
func services() http.Handler {
	write := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // to a test
	}
	type object = map[string]any
	mux := http.NewServeMux()
	mux.Handle("/", double.Google())
	mux.HandleFunc("/site/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>Page</title><h1>Page</h1><input aria-label=Name><p>text")
	})
	mux.HandleFunc("/slow/", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	mux.HandleFunc("/docs/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Query().Has("list-type"):
			fmt.Fprint(w, `<ListBucketResult><Contents><Key>a.txt</Key><Size>4</Size><ETag>"x"</ETag></Contents></ListBucketResult>`)
		case r.Method == http.MethodGet:
			w.Header().Set("ETag", `"x"`)
			fmt.Fprint(w, "text")
		}
	})
	table := func(w http.ResponseWriter, _ *http.Request) {
		write(w, object{"kind": "Table", "columnDefinitions": []object{{"name": "Name"}}, "rows": []object{{"cells": []string{"web-1"}, "object": object{"metadata": object{"name": "web-1", "namespace": "default"}}}}})
	}
	mux.HandleFunc("GET /api/v1/namespaces/default/pods", table)
	mux.HandleFunc("GET /apis/apps/v1/namespaces/default/deployments", table)
	mux.HandleFunc("GET /api/v1/namespaces/default/pods/{pod}/log", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "a line") })
	mux.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		write(w, object{"choices": []object{{"message": object{"content": "a chart"}}}})
	})
	mux.HandleFunc("/v1/audio/transcriptions", func(w http.ResponseWriter, _ *http.Request) { write(w, object{"text": "hello"}) })
	mux.HandleFunc("/search", func(w http.ResponseWriter, _ *http.Request) {
		write(w, object{"results": []object{{"title": "Page", "url": "https://example.com/", "content": "text"}}})
	})
	mux.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	return mux
}

// world is a room with every pack, in a folder of its own.
type world struct {
	*app.App
	t         testing.TB
	dir, home string
	url       string // of the services
	ids       map[string]string
}

// writeWorld makes the files of a world below base.
func writeWorld(base, service, more string) error {
	kubeconfig := fmt.Sprintf("current-context: c\nclusters: [{name: k, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: k, namespace: default}}]\n", service)
	config := fmt.Sprintf(`
egress: {allow: [%q]}
limits: {output_bytes: 10000}
builtin:
  web: {search: {provider: searxng, url: %[2]q}}
  storage: {url: %[2]q, bucket: docs, access_key: k, secret_key: s}
  k8s: {kubeconfig: %[3]q}
  media: {vision: {model: m, url: "%[4]s/v1"}, speech: {model: m, url: "%[4]s/v1"}}
  google: {client_id: id, client_secret: hush-hush, url: %[2]q, shared: true}
  message: {channels: {hook: {provider: webhook, url: "%[4]s/hook"}}}
%[5]s`, strings.TrimPrefix(service, "http://"), service, filepath.Join(base, "kubeconfig"), service, more)
	files := map[string]string{
		"toolroom.yaml": config, "kubeconfig": kubeconfig, "outside/secret.txt": "canary",
		"work/a.txt": "one\ntwo\n", "work/README.md": strings.Repeat("line\n", 100), "work/greeting.txt": "hello\n",
		"work/chart.png": "\x89PNG\r\n\x1a\n", "work/voice.ogg": "OggS", "work/report.pdf": "text",
	}
	for name, text := range files {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return os.Symlink(filepath.Join(base, "outside"), filepath.Join(base, "work", "link"))
}

// openWorld opens the room of a folder that writeWorld has made.
func openWorld(ctx context.Context, base, service string) (*world, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &world{dir: filepath.Join(base, "work"), home: filepath.Join(base, "home"), url: service, ids: map[string]string{}}
	w.App, err = app.Open(ctx, app.Options{
		Home: w.home, Workspace: w.dir, ConfigFile: filepath.Join(base, "toolroom.yaml"), Helper: self, Guest: app.Guest{Path: self, Args: []string{guest.MainArg}},
	})
	if err != nil {
		return nil, err
	}
	return w, w.Login(ctx, "google", toolroom.Identity{}, "http://127.0.0.1:1/callback", func(ctx context.Context, address string) (string, error) {
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
}

func newWorld(t *testing.T, more string) *world {
	t.Helper()
	requirePrograms(t, "chromium", "git")
	s := httptest.NewServer(services())
	t.Cleanup(s.Close)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := writeWorld(base, s.URL, more); err != nil {
		t.Fatal(err)
	}
	w, err := openWorld(context.Background(), base, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.t = t
	t.Cleanup(func() {
		s.CloseClientConnections()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if r := w.run(context.Background(), "", "shell:exec", toolroom.Args{"command": "true"}); !r.OK() {
		skipOrFail(t, r.Error.Error())
	}
	return w
}

// requirePrograms skips a test on a machine without these programs. In CI they must be there.
func requirePrograms(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			skipOrFail(t, err.Error())
		}
	}
}

func skipOrFail(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func (w *world) run(ctx context.Context, who, tool string, args toolroom.Args) *toolroom.Result {
	return w.Run(ctx, toolroom.Call{Tool: tool, Arguments: args.JSON(), Identity: toolroom.Identity{Subject: who}, Session: "s"})
}

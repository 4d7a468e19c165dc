package embed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/embed"
)

// openAI answers as OpenAI's API does, in another order than asked, as it may.
func openAI(t *testing.T) *httptest.Server {
	return serve(t, "/v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sk-key" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}`)
			return
		}
		in := read(t, r)
		if in.Model != "text-embedding-3-small" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error": {"message": "The model %s does not exist", "type": "invalid_request_error", "param": null, "code": "model_not_found"}}`, in.Model)
			return
		}
		var data []any
		for i, text := range in.Input {
			data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": []float64{float64(len(text)), 0, 1}})
		}
		slices.Reverse(data)
		reply(w, map[string]any{"object": "list", "data": data, "model": in.Model, "usage": map[string]int{"prompt_tokens": 8, "total_tokens": 8}})
	})
}

// ollama answers as Ollama does.
func ollama(t *testing.T) *httptest.Server {
	return serve(t, "/api/embed", func(w http.ResponseWriter, r *http.Request) {
		in := read(t, r)
		if in.Model != "all-minilm" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, `{"error":"model %q not found, try pulling it first"}`, in.Model)
			return
		}
		vectors := [][]float64{}
		for _, text := range in.Input {
			vectors = append(vectors, []float64{float64(len(text)), 0, 1})
		}
		reply(w, map[string]any{"model": in.Model, "embeddings": vectors, "total_duration": 14143917, "load_duration": 1019500, "prompt_eval_count": 8})
	})
}

type asked struct {
	Model string
	Input []string
}

func read(t *testing.T, r *http.Request) (in asked) {
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		t.Error(err)
	}
	return in
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func serve(t *testing.T, path string, answer http.HandlerFunc) *httptest.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, answer)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func key(context.Context) (string, error) { return "sk-key", nil }

func transport(t *testing.T, address string) http.RoundTripper {
	t.Helper()
	guard, err := egress.New(egress.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return guard.WithOwn(u).Transport()
}

func TestServicesGiveVectorsOfLengthOneInOrder(t *testing.T) {
	t.Parallel()
	first, second := openAI(t), ollama(t)
	for _, e := range []*embed.Remote{
		{Kind: embed.OpenAI, URL: first.URL + "/v1", Model: "text-embedding-3-small", Key: key, Transport: transport(t, first.URL)},
		{Kind: embed.Ollama, URL: second.URL + "/", Model: "all-minilm", Transport: transport(t, second.URL)},
	} {
		got, err := e.Embed(t.Context(), []string{"a", "three"})
		if err != nil || len(got) != 2 {
			t.Fatalf("%s: %v, %v", e.Name(), got, err)
		}
		for i, length := range []float64{1, 5} {
			if want := length / math.Sqrt(length*length+1); math.Abs(float64(got[i][0])-want) > 1e-6 {
				t.Errorf("%s: text %d has %v", e.Name(), i, got[i])
			}
		}
	}
}

func TestErrorsOfServicesAreTold(t *testing.T) {
	t.Parallel()
	first, second := openAI(t), ollama(t)
	for reason, e := range map[string]*embed.Remote{
		"Incorrect API key":     {Kind: embed.OpenAI, URL: first.URL + "/v1", Model: "text-embedding-3-small"},
		"gpt does not exist":    {Kind: embed.OpenAI, URL: first.URL + "/v1", Model: "gpt", Key: key},
		"try pulling it":        {Kind: embed.Ollama, URL: second.URL, Model: "other"},
		"404":                   {Kind: embed.Ollama, URL: second.URL + "/elsewhere", Model: "other"},
		"the secret is missing": {Kind: embed.OpenAI, URL: first.URL + "/v1", Model: "x", Key: func(context.Context) (string, error) { return "", errors.New("the secret is missing") }},
	} {
		_, err := e.Embed(t.Context(), []string{"a"})
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "sk-key") {
			t.Errorf("got %v, want %q", err, reason)
		}
	}
}

func TestHostileAnswersAreRefused(t *testing.T) {
	t.Parallel()
	elsewhere := serve(t, "/", func(http.ResponseWriter, *http.Request) { t.Error("the texts went elsewhere") })
	for reason, answer := range map[string]http.HandlerFunc{
		"2 vectors for 1 texts": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"embeddings": [[1], [2]]}`) },
		"not what was expected": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) },
		"no direction":          func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"embeddings": [[0, 0]]}`) },
		"more than 33554432":    func(w http.ResponseWriter, _ *http.Request) { endless(w) },
		"307 Temporary Redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			server := serve(t, "/api/embed", answer)
			e := &embed.Remote{Kind: embed.Ollama, URL: server.URL, Model: "all-minilm"}
			if _, err := e.Embed(t.Context(), []string{"a"}); err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func endless(w http.ResponseWriter) {
	for range 40 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			return
		}
	}
}

func TestAnIndexOutsideTheTextsIsRefused(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"data": [{"index": 7, "embedding": [1]}]}`, `{"data": [{"index": -1, "embedding": [1]}]}`,
		`{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}`, `{"data": []}`,
	} {
		server := serve(t, "/embeddings", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		e := &embed.Remote{Kind: embed.OpenAI, URL: server.URL, Model: "m"}
		if v, err := e.Embed(t.Context(), []string{"a"}); err == nil {
			t.Errorf("%s: %v", body, v)
		}
	}
}

func TestAnEndedContextEndsARequest(t *testing.T) {
	t.Parallel()
	came := make(chan struct{})
	server := serve(t, "/api/embed", func(_ http.ResponseWriter, r *http.Request) {
		read(t, r) // until then the server does not see that the client has gone
		close(came)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() { <-came; cancel() }()
	e := &embed.Remote{Kind: embed.Ollama, URL: server.URL, Model: "m"}
	if _, err := e.Embed(ctx, []string{"a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The address of a service is the operator's own; any other is judged by the rules.
func TestTheEgressGuardJudgesOtherAddresses(t *testing.T) {
	t.Parallel()
	server := ollama(t)
	e := &embed.Remote{Kind: embed.Ollama, URL: server.URL, Model: "all-minilm", Transport: transport(t, "http://127.0.0.1:1")}
	if _, err := e.Embed(t.Context(), []string{"a"}); err == nil {
		t.Error("a loopback address that nobody named was reached")
	}
}

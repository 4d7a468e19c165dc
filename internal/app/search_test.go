package app_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/embed"
)

// thinker is a service whose vectors say whether a text is about money.
func thinker(t *testing.T) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		vectors := [][]float64{}
		for _, text := range in.Input {
			v := []float64{0, 1}
			if strings.Contains(text, "invoice") || strings.Contains(text, "bill") {
				v = []float64{1, 0}
			}
			vectors = append(vectors, v)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"embeddings": vectors})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestTheConfigAndTheHomeChooseTheEmbedderOfSearches(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	known, err := embed.LoadRegistry(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := known.Add("thinker", embed.Entry{Kind: embed.Ollama, URL: thinker(t), Model: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := known.Save(home); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config, embedder, note string
		found                  bool
	}{
		{"{}", "thinker", "", true},
		{"search: {embedder: thinker}", "thinker", "", true},
		{"search: {embedder: none}", "", "", false},
		{"search: {embedder: other}", "", `there is no embedder "other" here`, false},
	} {
		file := filepath.Join(t.TempDir(), "toolroom.yaml")
		if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file})
		if err != nil {
			t.Fatal(err)
		}
		for id, text := range map[string]string{"a:payable": "List invoices.", "a:other": "Look at the sky."} {
			if err := app.Register(r, id, text, says("x")); err != nil {
				t.Fatal(err)
			}
		}
		if service, err := r.Embedder(known.Embedders["thinker"]); err != nil {
			t.Error(err)
		} else if c.found {
			if err := r.EmbedTools(t.Context(), service, func(embed.Progress) {}); err != nil {
				t.Error(err)
			}
			service.Close()
		}
		found := r.Search(toolroom.Identity{}, "bill", catalog.SearchOptions{Limit: 3})
		first := len(found.Hits) > 0 && found.Hits[0].ID == "a:payable"
		if status := r.SearchStatus(t.Context()); status.Embedder != c.embedder || !status.Learns || first != c.found || !strings.Contains(found.Note, c.note) || c.note == "" && found.Note != "" {
			t.Errorf("%s: %+v finds %+v", c.config, status, found)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestADamagedFileOfEmbeddersLeavesSearchesByWordsThatSaySo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := embed.RegistryPath(home)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := openRoom(t, app.Options{Home: home, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := app.Register(r, "a:sky", "Look at the sky.", says("x")); err != nil {
		t.Fatal(err)
	}
	found := r.Search(toolroom.Identity{}, "sky", catalog.SearchOptions{Limit: 1})
	if len(found.Hits) != 1 || !strings.Contains(found.Note, "the file of embedders cannot be read") || !strings.Contains(log.String(), path) {
		t.Errorf("found %+v, log %s", found, log.String())
	}
}

// A change of egress applies to the embedder, too.
func TestAReloadOfEgressCountsForTheEmbedder(t *testing.T) {
	t.Parallel()
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "toolroom.yaml")
	known, err := embed.LoadRegistry(home)
	if err != nil {
		t.Fatal(err)
	}
	if err := known.Add("thinker", embed.Entry{Kind: embed.Ollama, URL: thinker(t), Model: "m"}); err != nil {
		t.Fatal(err)
	}
	if err := known.Save(home); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := app.Register(r, "a:payable", "List invoices.", says("x")); err != nil {
		t.Fatal(err)
	}
	service, err := r.Embedder(known.Embedders["thinker"])
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	if err := r.EmbedTools(t.Context(), service, func(embed.Progress) {}); err != nil {
		t.Fatal(err)
	}
	if found := r.Search(toolroom.Identity{}, "bill", catalog.SearchOptions{}); found.Note != "" || len(found.Hits) != 1 {
		t.Fatalf("before: %+v", found)
	}
	if err := os.WriteFile(file, []byte("egress: {deny: [127.0.0.1]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.ReloadFile(); err != nil {
		t.Fatal(err)
	}
	if found := r.Search(toolroom.Identity{}, "another bill", catalog.SearchOptions{}); !strings.Contains(found.Note, "egress.deny contains") {
		t.Errorf("the embedder was asked although egress denies it: %+v", found)
	}
}

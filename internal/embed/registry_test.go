package embed_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/embed"
)

var service = embed.Entry{Kind: embed.Ollama, URL: "http://127.0.0.1:11434", Model: "all-minilm"}

func TestARegistryIsKeptAndTheLastAddedIsChosen(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	r, err := embed.LoadRegistry(home)
	if err != nil || r.Chosen != "" || len(r.Names()) != 0 {
		t.Fatalf("an empty home: %+v, %v", r, err)
	}
	for _, name := range []string{"one", "two"} {
		if err := r.Add(name, service); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Save(home); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(embed.RegistryPath(home)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	again, err := embed.LoadRegistry(home)
	if err != nil || again.Chosen != "two" || !slices.Equal(again.Names(), []string{"one", "two"}) || again.Embedders["one"] != service {
		t.Fatalf("read again: %+v, %v", again, err)
	}
	if err := again.Remove("none"); err == nil || !strings.Contains(err.Error(), "one, two") {
		t.Errorf("removed what is not there: %v", err)
	}
	if err := again.Remove("one"); err != nil || again.Chosen != "two" {
		t.Errorf("without one, %q is chosen, %v", again.Chosen, err)
	}
	if err := again.Remove("two"); err != nil || again.Chosen != "" {
		t.Errorf("without two, %q is chosen, %v", again.Chosen, err)
	}
}

func TestARegistryRefusesWhatIsNoEmbedder(t *testing.T) {
	t.Parallel()
	r := &embed.Registry{Embedders: map[string]embed.Entry{}}
	with := func(change func(*embed.Entry)) embed.Entry {
		e := service
		change(&e)
		return e
	}
	for why, c := range map[string]struct {
		name  string
		entry embed.Entry
	}{
		"no name":             {"", service},
		"the word for none":   {"none", service},
		"a capital letter":    {"Ollama", service},
		"a path":              {"../x", service},
		"an unknown kind":     {"x", with(func(e *embed.Entry) { e.Kind = "word2vec" })},
		"no model":            {"x", with(func(e *embed.Entry) { e.Model = "" })},
		"no host":             {"x", with(func(e *embed.Entry) { e.URL = "http://" })},
		"another scheme":      {"x", with(func(e *embed.Entry) { e.URL = "file:///etc" })},
		"a password":          {"x", with(func(e *embed.Entry) { e.URL = "http://u:p@127.0.0.1/" })},
		"a key in the query":  {"x", with(func(e *embed.Entry) { e.URL = "http://127.0.0.1/?key=k" })},
		"a relative folder":   {"x", embed.Entry{Kind: embed.MiniLM, Dir: "model"}},
		"a folder of nothing": {"x", embed.Entry{Kind: embed.MiniLM}},
	} {
		if err := r.Add(c.name, c.entry); err == nil {
			t.Errorf("%s was taken", why)
		}
	}
	if len(r.Embedders) != 0 || r.Chosen != "" {
		t.Errorf("something is left: %+v", r)
	}
}

func TestADamagedRegistryIsAnErrorThatNamesItsFile(t *testing.T) {
	t.Parallel()
	for text, works := range map[string]bool{
		`{"embedders": {}}`: true, `{}`: true, `null`: true, `{"embedders": null}`: true,
		``: false, `[]`: false, `{"embedders": {"x": 1}}`: false, "{\"chosen\": \"" + strings.Repeat("x", 1<<20) + "\"}": false,
	} {
		home := t.TempDir()
		path := embed.RegistryPath(home)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := embed.LoadRegistry(home)
		switch {
		case works && err != nil, !works && (err == nil || !strings.Contains(err.Error(), path)):
			t.Errorf("%.40q: %v", text, err)
		case works:
			if err := r.Add("x", service); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// MiniLM is the kind of a [Model] in a folder. The other kinds are those of a [Remote].
const MiniLM = "minilm"

// An Entry says where an embedder is.
type Entry struct {
	Kind string `json:"kind"`
	// Dir is the folder of a model, and Digest the SHA-256 that its weights must have.
	Dir    string `json:"dir,omitempty"`
	Digest string `json:"digest,omitempty"`
	// URL, Model and Key are those of a service. Key usually names a secret.
	URL   string `json:"url,omitempty"`
	Model string `json:"model,omitempty"`
	Key   string `json:"key,omitempty"`
}

// Address returns the URL of a service; nil for a model in a folder.
func (e Entry) Address() (*url.URL, error) {
	if e.Kind == MiniLM {
		return nil, nil
	}
	return url.Parse(e.URL)
}

// Check returns what is wrong with an entry.
func (e Entry) Check() error {
	switch e.Kind {
	case MiniLM:
		if !filepath.IsAbs(e.Dir) {
			return fmt.Errorf("the folder %q of the model is not absolute", e.Dir)
		}
		return nil
	case OpenAI, Ollama:
		u, err := url.Parse(e.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%q is not the URL of a service", e.URL)
		}
		if u.User != nil || u.RawQuery != "" {
			return errors.New("the URL of a service holds neither a password nor a query; name the key as a secret")
		}
		if e.Model == "" {
			return errors.New("the name of the model is missing")
		}
		return nil
	}
	return fmt.Errorf("unknown kind %q of embedder; there are %s, %s and %s", e.Kind, MiniLM, OpenAI, Ollama)
}

// Open opens the embedder. The transport and the key are for services.
func (e Entry) Open(ctx context.Context, transport http.RoundTripper, key func(context.Context) (string, error)) (Embedder, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if e.Kind == MiniLM {
		return LoadModel(ctx, e.Dir, e.Digest)
	}
	r := &Remote{Kind: e.Kind, URL: e.URL, Model: e.Model, Transport: transport}
	if e.Key != "" {
		r.Key = key
	}
	return r, nil
}

// A Registry is the embedders of a home.
type Registry struct {
	// Chosen is the name of the embedder that is used unless the config names another.
	Chosen    string           `json:"chosen,omitempty"`
	Embedders map[string]Entry `json:"embedders"`
}

// registryMaxFile is the most that a file of embedders may have.
const registryMaxFile = 1 << 20

// RegistryPath returns the file of a home's embedders.
func RegistryPath(home string) string { return filepath.Join(home, "search", "embedders.json") }

// LoadRegistry reads the embedders of a home.
func LoadRegistry(home string) (*Registry, error) {
	r := &Registry{Embedders: map[string]Entry{}}
	info, err := os.Stat(RegistryPath(home))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > registryMaxFile) {
		err = fmt.Errorf("%s is not a file of at most %d bytes", RegistryPath(home), registryMaxFile)
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(RegistryPath(home))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: %w", RegistryPath(home), err)
	}
	if r.Embedders == nil { // the file says null
		r.Embedders = map[string]Entry{}
	}
	return r, nil
}

var name = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Add adds or replaces an embedder and chooses it.
func (r *Registry) Add(as string, e Entry) error {
	if !name.MatchString(as) || as == "none" {
		return fmt.Errorf("%q is not a name of an embedder: use small letters, digits, dots and hyphens", as)
	}
	if err := e.Check(); err != nil {
		return err
	}
	r.Embedders[as], r.Chosen = e, as
	return nil
}

// Remove removes an embedder. If it was chosen, none is.
func (r *Registry) Remove(as string) error {
	if _, ok := r.Embedders[as]; !ok {
		return fmt.Errorf("there is no embedder %q; there are: %s", as, strings.Join(r.Names(), ", "))
	}
	delete(r.Embedders, as)
	if r.Chosen == as {
		r.Chosen = ""
	}
	return nil
}

// Names returns the names, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.Embedders)) }

// Save writes the embedders of a home.
func (r *Registry) Save(home string) error {
	if err := os.MkdirAll(filepath.Dir(RegistryPath(home)), 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(RegistryPath(home), append(data, '\n'), 0o600)
}

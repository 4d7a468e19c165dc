package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// OfficialModel is the SHA-256 of the weights that the authors of all-MiniLM-L6-v2 publish.
const OfficialModel = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

// maxTokens is the length at which texts are cut, as the model was trained.
const maxTokens = 256

// A Model is a loaded BERT encoder of the kind of all-MiniLM-L6-v2, in Go alone. Its methods
// are safe for concurrent use. It holds its weights in memory: 90 MB for all-MiniLM-L6-v2.
type Model struct {
	shape  shape
	digest string
	tokens *tokenizer

	words, positions, kind []float32
	norm                   layerNorm
	layers                 []layer
}

// shape is what config.json says of the architecture.
type shape struct {
	Type         string  `json:"model_type"`
	Activation   string  `json:"hidden_act"`
	Position     string  `json:"position_embedding_type"`
	Hidden       int     `json:"hidden_size"`
	Intermediate int     `json:"intermediate_size"`
	Heads        int     `json:"num_attention_heads"`
	Layers       int     `json:"num_hidden_layers"`
	Positions    int     `json:"max_position_embeddings"`
	Kinds        int     `json:"type_vocab_size"`
	Vocabulary   int     `json:"vocab_size"`
	Epsilon      float64 `json:"layer_norm_eps"`
}

func (s *shape) check() error {
	if s.Type != "bert" || s.Activation != "gelu" || s.Position != "" && s.Position != "absolute" {
		return fmt.Errorf("model_type %.20q, hidden_act %.20q, position_embedding_type %.20q: only bert, gelu, absolute is supported", s.Type, s.Activation, s.Position)
	}
	for _, b := range []struct {
		name     string
		is, most int
	}{
		{"hidden_size", s.Hidden, 1024},
		{"intermediate_size", s.Intermediate, 4096},
		{"num_attention_heads", s.Heads, 64},
		{"num_hidden_layers", s.Layers, 24},
		{"max_position_embeddings", s.Positions, 4096},
		{"type_vocab_size", s.Kinds, 16},
		{"vocab_size", s.Vocabulary, 250_000},
	} {
		if b.is < 1 || b.is > b.most {
			return fmt.Errorf("%s is %d; it must be from 1 to %d", b.name, b.is, b.most)
		}
	}
	if s.Hidden%s.Heads != 0 || s.Positions < 8 || !(s.Epsilon > 0 && s.Epsilon < 1) {
		return fmt.Errorf("hidden_size %d, num_attention_heads %d, max_position_embeddings %d and layer_norm_eps %v do not fit", s.Hidden, s.Heads, s.Positions, s.Epsilon)
	}
	return nil
}

// LoadModel reads a model from a folder, as sentence-transformers writes it:
//
//	config.json  vocab.txt  model.safetensors  1_Pooling/config.json (optional)
//
// If digest is not empty, the SHA-256 of model.safetensors must be that. A folder is not
// trusted: sizes are bounded, and whatever does not fit the architecture is refused
// before memory is taken for it.
func LoadModel(ctx context.Context, dir, digest string) (*Model, error) {
	m := &Model{}
	if err := readJSON(filepath.Join(dir, "config.json"), &m.shape); err != nil {
		return nil, fmt.Errorf("no model in %s: %w", dir, err)
	}
	if err := m.shape.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "config.json"), err)
	}
	if err := checkPooling(filepath.Join(dir, "1_Pooling", "config.json")); err != nil {
		return nil, err
	}
	var err error
	if m.tokens, err = readVocabulary(filepath.Join(dir, "vocab.txt"), m.shape.Vocabulary); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "model.safetensors")
	w, err := readWeights(ctx, path)
	if err != nil {
		return nil, err
	}
	if digest != "" && w.digest != digest {
		return nil, fmt.Errorf("%s has SHA-256 %s, not %s: the weights are not those that were chosen", path, w.digest, digest)
	}
	m.digest = w.digest
	if err := m.fill(w); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// checkPooling refuses a model whose vector is anything but the mean of its tokens.
func checkPooling(path string) error {
	var p struct {
		Mean  *bool `json:"pooling_mode_mean_tokens"`
		Class bool  `json:"pooling_mode_cls_token"`
		Max   bool  `json:"pooling_mode_max_tokens"`
	}
	switch err := readJSON(path, &p); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case p.Class || p.Max || p.Mean != nil && !*p.Mean:
		return fmt.Errorf("%s: only the mean of all tokens is supported", path)
	}
	return nil
}

func readJSON(path string, into any) error {
	data, err := readSmall(path, 64<<10)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// fill takes the tensors of the architecture from w.
func (m *Model) fill(w *weights) error {
	var failed error
	take := func(name string, shape ...int) []float32 {
		t, err := w.take(name, shape...)
		failed = errors.Join(failed, err)
		return t
	}
	s := m.shape
	linear := func(name string, in, out int) linear {
		return linear{take(name+".weight", out, in), take(name+".bias", out), in, out}
	}
	norm := func(name string) layerNorm {
		return layerNorm{take(name+".weight", s.Hidden), take(name+".bias", s.Hidden), s.Epsilon}
	}
	m.words = take("embeddings.word_embeddings.weight", s.Vocabulary, s.Hidden)
	m.positions = take("embeddings.position_embeddings.weight", s.Positions, s.Hidden)
	m.kind = take("embeddings.token_type_embeddings.weight", s.Kinds, s.Hidden)
	m.norm = norm("embeddings.LayerNorm")
	for i := range s.Layers {
		if failed != nil {
			return failed
		}
		at := fmt.Sprintf("encoder.layer.%d.", i)
		m.layers = append(m.layers, layer{
			query:     linear(at+"attention.self.query", s.Hidden, s.Hidden),
			key:       linear(at+"attention.self.key", s.Hidden, s.Hidden),
			value:     linear(at+"attention.self.value", s.Hidden, s.Hidden),
			attention: linear(at+"attention.output.dense", s.Hidden, s.Hidden),
			afterAttn: norm(at + "attention.output.LayerNorm"),
			up:        linear(at+"intermediate.dense", s.Hidden, s.Intermediate),
			down:      linear(at+"output.dense", s.Intermediate, s.Hidden),
			after:     norm(at + "output.LayerNorm"),
		})
	}
	return failed
}

// Name identifies the model: vectors of models with one name may be compared.
func (m *Model) Name() string { return "minilm-" + m.digest[:16] }

// Embed returns a vector of length 1 for each text, of which the first 256
// tokens count. It stops soon after ctx has ended.
func (m *Model) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	limit := min(maxTokens, m.shape.Positions)
	for i, text := range texts {
		var err error
		if vectors[i], err = m.encode(ctx, m.tokens.encode(text, limit)); err != nil {
			return nil, err
		}
	}
	return vectors, nil
}

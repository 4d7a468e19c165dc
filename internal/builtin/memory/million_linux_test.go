package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/internal/embed"
)

// vocabulary returns words, and a function that picks one as texts do: few are frequent.
func vocabulary(r *rand.Rand, n int) (list []string, pick func() string) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	for range n {
		word := make([]byte, 3+r.IntN(8))
		for i := range word {
			word[i] = letters[r.IntN(len(letters))]
		}
		list = append(list, string(word))
	}
	zipf := rand.NewZipf(r, 1.1, 8, uint64(n-1))
	return list, func() string { return list[zipf.Uint64()] }
}

// writeNotes writes paragraphs of about 30 words into namespaces of a thousand.
func writeNotes(tb testing.TB, s store, owner string, paragraphs int, pick func() string) {
	tb.Helper()
	folder := s.folder(owner)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		tb.Fatal(err)
	}
	for file := range paragraphs / 1000 {
		var b strings.Builder
		for range 1000 {
			for range 30 {
				b.WriteString(pick())
				b.WriteByte(' ')
			}
			b.WriteString("\n\n")
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("n%d.md", file)), []byte(b.String()), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkMillionParagraphs measures searches among a million paragraphs, by words and with
// meaning too: queries of three to eight words as frequent as in the notes, by the clock and
// by the processor time of its thread. The first search reads them all. The vectors are made
// up, in 20,000 clusters; embedding a query takes no time here.
func BenchmarkMillionParagraphs(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	_, pick := vocabulary(r, 50_000)
	x := &index{store: store{b.TempDir()}}
	writeNotes(b, x.store, "o", 1_000_000, pick)
	b.Run("words", func(b *testing.B) { benchmarkSearches(b, x, r, pick) })
	made := clusters(r, 20_000, 384)
	service := embed.New(func(context.Context) (embed.Embedder, error) { return made, nil }, embed.Options{})
	defer service.Close()
	x.vectors.service, x.vectors.ctx = func() *embed.Service { return service }, b.Context()
	l := x.ownerIndex("o")
	if err := l.refresh(x.store, "o"); err != nil {
		b.Fatal(err)
	}
	table, err := openTable(b.Context(), filepath.Join(x.store.folder("o"), vectorsFile), made.Name())
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range l.files {
		digests := make([]embed.Digest, len(f.paragraphs))
		for i, p := range f.paragraphs {
			digests[i] = p.digest
		}
		if err := table.add(b.Context(), digests, made.some(len(digests))); err != nil {
			b.Fatal(err)
		}
	}
	l.vectors = vectorState{service: service, table: table}
	b.Run("meaning", func(b *testing.B) { benchmarkSearches(b, x, r, pick) })
}

func benchmarkSearches(b *testing.B, x *index, r *rand.Rand, pick func() string) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	processor := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	ask := func(query string) (elapsed, used time.Duration) {
		start, before := time.Now(), processor()
		if found, note, err := x.search(b.Context(), "o", query, "", 10, false); err != nil || len(found) == 0 || note != "" {
			b.Fatal(len(found), note, err)
		}
		return time.Since(start), processor() - before
	}
	_, first := ask(pick())
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	var times, used []time.Duration
	for b.Loop() {
		var query []string
		for range 3 + r.IntN(6) {
			query = append(query, pick())
		}
		elapsed, processor := ask(strings.Join(query, " "))
		times, used = append(times, elapsed), append(used, processor)
	}
	slices.Sort(times)
	slices.Sort(used)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(float64(used[len(used)/2].Microseconds())/1000, "cpu-ms-p50")
	b.ReportMetric(float64(used[len(used)*99/100].Microseconds())/1000, "cpu-ms-p99")
	b.ReportMetric(first.Seconds(), "cpu-s-first")
	b.ReportMetric(float64(memory.HeapAlloc>>20), "MiB")
}

// The index finds what a plain look through all paragraphs finds.
func TestTheIndexRanksLikeALookThroughAllParagraphs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	_, pick := vocabulary(r, 300)
	x := &index{store: store{t.TempDir()}}
	writeNotes(t, x.store, "o", 2000, pick)
	for range 50 {
		query := []string{pick(), pick(), pick()}
		found, _, err := x.search(t.Context(), "o", strings.Join(query, " "), "", 20, false)
		if err != nil {
			t.Fatal(err)
		}
		want := words(strings.Join(query, " "))
		shared := func(text string) int {
			n := 0
			for _, w := range slices.Compact(slices.Sorted(slices.Values(want))) {
				if slices.Contains(words(text), w) {
					n++
				}
			}
			return n
		}
		if len(found) != 20 || !slices.IsSortedFunc(found, compareHits) || shared(found[0].text) == 0 {
			t.Fatalf("%v finds %d", query, len(found))
		}
		// The same paragraphs, looked at one by one.
		l := x.ownerIndex("o")
		scores := l.score(strings.Join(query, " "), 2000)
		var plain []hit
		for name, f := range l.files {
			for i := range f.paragraphs {
				if n := shared(f.paragraphs[i].text); (n > 0) != (scores[name] != nil && scores[name][i] > 0) {
					t.Fatalf("%v: %q has %d words and the score %v", query, f.paragraphs[i].text, n, scores[name][i])
				}
				if scores[name] != nil && scores[name][i] > 0 {
					plain = append(plain, f.hit(name, i, scores[name][i]))
				}
			}
		}
		slices.SortFunc(plain, compareHits)
		for i, h := range found {
			if h.paragraph != plain[i].paragraph {
				t.Fatalf("%v: hit %d is %v, want %v", query, i, h, plain[i])
			}
		}
	}
}

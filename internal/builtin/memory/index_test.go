package memory

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolroom/toolroom/internal/embed"
)

// TestWordsOfRemovedTextsDoNotStayForEver writes other words to one note again and again.
func TestWordsOfRemovedTextsDoNotStayForEver(t *testing.T) {
	t.Parallel()
	x := &index{store: store{t.TempDir()}}
	const each = 50_000
	for i := range 8 {
		err := x.store.change(t.Context(), "ada", "note", func(string) (string, error) {
			var b strings.Builder
			for j := range each {
				fmt.Fprintf(&b, "w%dx%d ", i, j)
			}
			return b.String() + strings.Repeat(" ", i), nil // of another size
		})
		if err != nil {
			t.Fatal(err)
		}
		hits, _, err := x.search(t.Context(), "ada", fmt.Sprintf("w%dx7", i), "", 1, true)
		if err != nil || len(hits) != 1 {
			t.Fatalf("round %d: %v, %v", i, hits, err)
		}
	}
	if got, most := len(x.ownerIndex("ada").terms), each+2*maxDropped+2*each; got > most {
		t.Errorf("%d words are kept of a note with %d, want at most %d", got, each, most)
	}
}

// waits embeds texts; a text that is asked for as "wait" is embedded when go is closed.
type waits struct{ begun, goOn chan struct{} }

func (waits) Name() string { return "waits" }

func (w waits) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		if text == "wait" {
			close(w.begun)
			select {
			case <-w.goOn:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		vectors[i] = []float32{1, 0}
		if text == "else" {
			vectors[i] = []float32{0, 1}
		}
	}
	return vectors, nil
}

// Searches of one owner do not wait for each other, neither for the lock nor for the embedder,
// while the notes are as they were.
func TestSearchesOfOneOwnerProceedAtOnce(t *testing.T) {
	t.Parallel()
	e := waits{make(chan struct{}), make(chan struct{})}
	service := embed.New(func(context.Context) (embed.Embedder, error) { return e, nil }, embed.Options{Wait: time.Minute})
	x := &index{store: store{t.TempDir()}, vectors: embedding{ctx: t.Context(), service: func() *embed.Service { return service }}}
	write := func(text string) {
		t.Helper()
		if err := x.store.change(t.Context(), "ada", "note", func(string) (string, error) { return text, nil }); err != nil {
			t.Fatal(err)
		}
	}
	search := func(query string, keywordOnly bool) <-chan string {
		answer := make(chan string, 1)
		go func() {
			hits, note, err := x.search(t.Context(), "ada", query, "", 1, keywordOnly)
			if err != nil || len(hits) != 1 {
				answer <- fmt.Sprint(hits, err)
				return
			}
			answer <- note
		}()
		return answer
	}
	wait := func(answer <-chan string) string {
		t.Helper()
		select {
		case note := <-answer:
			return note
		case <-time.After(time.Minute):
			t.Fatal("a search waits for another")
			return ""
		}
	}
	write("the red fox\n\nelse")
	for end := time.Now().Add(time.Minute); wait(search("fox", false)) != ""; {
		if time.Now().After(end) {
			t.Fatal("the notes are not embedded")
		}
		time.Sleep(time.Millisecond)
	}
	slow := search("wait", false)
	select {
	case <-e.begun:
	case <-time.After(time.Minute):
		t.Fatal("no query was embedded")
	}
	l := x.ownerIndex("ada")
	l.mu.RLock() // as another search does
	byWords, byMeaning := wait(search("fox", true)), wait(search("fox", false))
	l.mu.RUnlock()
	if byWords != "" || byMeaning != "" {
		t.Errorf("%q, %q", byWords, byMeaning)
	}
	close(e.goOn)
	if note := wait(slow); note != "" {
		t.Errorf("the slow one: %q", note)
	}
	write("the red fox and a blue whale\n\nelse")
	if note := wait(search("whale", true)); note != "" {
		t.Errorf("what was written before a search: %q", note)
	}
}

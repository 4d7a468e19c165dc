package embed_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/embed"
)

// lengths embeds a text as its length and number of spaces. It may be slow or fail.
type lengths struct {
	asked atomic.Int64 // texts
	delay time.Duration
	fail  atomic.Pointer[error]
	panic bool
	wrong [][]float32
}

func (l *lengths) Name() string { return "lengths" }

func (l *lengths) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	l.asked.Add(int64(len(texts)))
	select {
	case <-time.After(l.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l.panic {
		panic("broken model")
	}
	if err := l.fail.Load(); err != nil {
		return nil, *err
	}
	if l.wrong != nil {
		return l.wrong, nil
	}
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		vectors[i] = []float32{float32(len(text)), float32(strings.Count(text, " "))}
	}
	return vectors, nil
}

func newService(t *testing.T, e embed.Embedder, o embed.Options) *embed.Service {
	s := embed.New(func(context.Context) (embed.Embedder, error) { return e, nil }, o)
	t.Cleanup(s.Close)
	return s
}

func TestAQueryIsEmbeddedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &lengths{delay: time.Millisecond}
		s := newService(t, e, embed.Options{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if v, reason := s.Query(t.Context(), " read  a file"); len(v) != 2 || v[0] != 11 || reason != "" {
					t.Errorf("%v, %q", v, reason)
				}
			})
		}
		wg.Wait()
		if n := e.asked.Load(); n != 1 {
			t.Errorf("%d texts were embedded", n)
		}
		s.Close()
	})
}

func TestASlowEmbedderServesTheNextSearch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newService(t, &lengths{delay: time.Second}, embed.Options{Wait: 300 * time.Millisecond})
		start := time.Now()
		v, reason := s.Query(t.Context(), "read a file")
		if v != nil || !strings.Contains(reason, "longer than 300ms") || time.Since(start) != 300*time.Millisecond {
			t.Errorf("%v, %q after %s", v, reason, time.Since(start))
		}
		time.Sleep(time.Second)
		if v, reason := s.Query(t.Context(), "read a file"); v == nil {
			t.Errorf("the second time: %q", reason)
		}
		s.Close()
	})
}

func TestManySlowQueriesDoNotPileUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &lengths{delay: time.Minute}
		s := newService(t, e, embed.Options{Wait: time.Second, RequestTimeout: time.Hour})
		for i := range 4 {
			go s.Query(t.Context(), fmt.Sprint("query ", i))
		}
		synctest.Wait()
		start := time.Now()
		if v, reason := s.Query(t.Context(), "one more"); v != nil || reason != "the embedder is busy" || time.Since(start) != 0 {
			t.Errorf("%v, %q", v, reason)
		}
		s.Close()
	})
}

func TestAFailedEmbedderRestsAndIsAskedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &lengths{}
		refused := errors.New("no route")
		e.fail.Store(&refused)
		s := newService(t, e, embed.Options{Rest: 10 * time.Second})
		for range 3 {
			if v, reason := s.Query(t.Context(), "read"); v != nil || !strings.Contains(reason, "no route") {
				t.Errorf("%v, %q", v, reason)
			}
		}
		if n := e.asked.Load(); n != 1 {
			t.Errorf("asked %d times within its rest", n)
		}
		if s.Failure() == nil {
			t.Error("the failure is not told")
		}
		e.fail.Store(nil)
		time.Sleep(10 * time.Second)
		if v, reason := s.Query(t.Context(), "read"); v == nil {
			t.Errorf("after its rest: %q", reason)
		}
		s.Close()
	})
}

func TestAnEmbedderThatOpensAfterAFailureHasFailedNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		missing := errors.New("the model is not there")
		s := embed.New(func(context.Context) (embed.Embedder, error) {
			err := missing
			missing = nil
			return &lengths{}, err
		}, embed.Options{Rest: time.Second})
		if _, err := s.Name(t.Context()); err == nil || s.Failure() == nil {
			t.Fatal("the first opening failed, and its error is not returned")
		}
		time.Sleep(time.Second)
		if _, err := s.Name(t.Context()); err != nil || s.Failure() != nil {
			t.Errorf("after it opened: %v, %v", err, s.Failure())
		}
		s.Close()
	})
}

func TestWhatIsNoVectorIsRefused(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*lengths{
		"too few":              {wrong: [][]float32{}},
		"an empty one":         {wrong: [][]float32{{}}},
		"endless dimensions":   {wrong: [][]float32{make([]float32, 10_000)}},
		"a panic in the model": {panic: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, e, embed.Options{})
			if _, err := s.Embed(t.Context(), []string{"read"}); err == nil {
				t.Error("no error")
			}
		})
	}
	s := newService(t, &lengths{wrong: [][]float32{{1, 2}, {1}}}, embed.Options{})
	if _, err := s.Embed(t.Context(), []string{"a", "b"}); err == nil {
		t.Error("different dimensions are no error")
	}
}

func TestAnEmbedderThatCannotBeOpenedIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		s := embed.New(func(context.Context) (embed.Embedder, error) {
			if attempts++; attempts == 1 {
				return nil, errors.New("the folder is gone")
			}
			return &lengths{}, nil
		}, embed.Options{Rest: time.Second})
		for range 2 {
			if v, reason := s.Query(t.Context(), "read"); v != nil || !strings.Contains(reason, "the folder is gone") {
				t.Errorf("%v, %q", v, reason)
			}
		}
		time.Sleep(time.Second)
		if v, reason := s.Query(t.Context(), "read"); v == nil || attempts != 2 {
			t.Errorf("%q after %d attempts", reason, attempts)
		}
		s.Close()
	})
}

func TestWhatComesWithAFailureToOpenIsNotUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var none *lengths // in an interface it is not nil
		attempts := 0
		s := embed.New(func(context.Context) (embed.Embedder, error) {
			attempts++
			return none, errors.New("the folder is gone")
		}, embed.Options{Rest: time.Second})
		for range 3 {
			if _, err := s.Name(t.Context()); err == nil || !strings.Contains(err.Error(), "the folder is gone") {
				t.Errorf("got %v", err)
			}
			time.Sleep(time.Second)
		}
		if attempts != 3 {
			t.Errorf("opened %d times", attempts)
		}
		s.Close()
	})
}

func TestCloseEndsTheOpening(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := embed.New(func(ctx context.Context) (embed.Embedder, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, embed.Options{RequestTimeout: time.Hour})
		done := make(chan error)
		go func() {
			_, err := s.Name(context.Background())
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		s.Close()
		if err := <-done; err == nil || time.Since(start) != 0 {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

func TestAFileKeepsVectorsOfOneModel(t *testing.T) {
	t.Parallel()
	f := embed.File{Path: filepath.Join(t.TempDir(), "deep", "tools.vectors")}
	want := map[embed.Digest][]float32{embed.DigestOf("a"): {1, 0.5}, embed.DigestOf("b"): {-1, 0}}
	if err := f.Save(t.Context(), "model", want); err != nil {
		t.Fatal(err)
	}
	load := func(model string) map[embed.Digest][]float32 {
		t.Helper()
		got, err := f.Load(model)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if diff := cmp.Diff(want, load("model")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := load("another"); len(got) != 0 {
		t.Errorf("another model has %v", got)
	}
	whole, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 0x40
		for _, data := range [][]byte{damaged, whole[:i]} {
			if err := os.WriteFile(f.Path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := load("model"); len(got) != 0 {
				t.Fatalf("damaged at byte %d: %v", i, got)
			}
		}
	}
}

func TestTextsAreEmbeddedOnceAndKept(t *testing.T) {
	t.Parallel()
	e := &lengths{}
	file := embed.File{Path: filepath.Join(t.TempDir(), "tools.vectors")}
	texts := map[string]string{"a": "one", "b": "two words", "c": "one"}
	var set map[string][]float32
	newIndexer := func() *embed.Indexer {
		set = map[string][]float32{}
		return &embed.Indexer{
			Service: newService(t, e, embed.Options{}), File: file,
			Texts: func() map[string]string { return maps.Clone(texts) }, Set: func(v map[string][]float32) { maps.Copy(set, v) },
		}
	}
	x := newIndexer()
	if err := x.Index(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string][]float32{"a": {3, 0}, "b": {9, 1}, "c": {3, 0}}
	if diff := cmp.Diff(want, set); diff != "" || e.asked.Load() != 2 {
		t.Errorf("%d texts embedded (-want +got)\n%s", e.asked.Load(), diff)
	}
	if p := x.State(); p.Texts != 3 || p.Embedded != 3 || p.Err != nil {
		t.Errorf("%+v", p)
	}
	x = newIndexer() // as after a restart
	if err := x.Recall(t.Context()); err != nil || len(set) != 3 || e.asked.Load() != 2 {
		t.Errorf("%v, %v, %d texts embedded", err, set, e.asked.Load())
	}
	texts["b"] = "another three words"
	if err := x.Index(t.Context()); err != nil || e.asked.Load() != 3 || set["b"][1] != 2 {
		t.Errorf("%v, %v, %d texts embedded", err, set, e.asked.Load())
	}
	kept, err := file.Load("lengths")
	if _, there := kept[embed.DigestOf("two words")]; err != nil || there || len(kept) != 2 {
		t.Errorf("the old text's vector is kept: %d, %v", len(kept), err)
	}
}

func TestIndexingGoesOnWhereItFailed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := &lengths{}
		broken := errors.New("overloaded")
		e.fail.Store(&broken)
		s := newService(t, e, embed.Options{})
		var mu sync.Mutex
		set := map[string][]float32{}
		x := &embed.Indexer{
			Service: s, File: embed.File{Path: filepath.Join(t.TempDir(), "v")}, Texts: func() map[string]string { return map[string]string{"a": "one"} },
			Set: func(v map[string][]float32) { mu.Lock(); defer mu.Unlock(); maps.Copy(set, v) },
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); x.Run(ctx, nil) }()
		time.Sleep(time.Second)
		if p := x.State(); p.Err == nil || p.Embedded != 0 {
			t.Errorf("%+v", p)
		}
		e.fail.Store(nil)
		time.Sleep(time.Minute)
		if p := x.State(); p.Err != nil || p.Embedded != 1 {
			t.Errorf("%+v", p)
		}
		cancel()
		<-done
		s.Close()
	})
}

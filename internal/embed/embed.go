// Package embed turns texts into vectors that are near each other if the texts mean
// about the same. An [Embedder] computes them: a [Model] does so in this process, and a
// [Remote] asks a service that speaks OpenAI's API, or Ollama. A [Service] puts bounds
// around one: a search asks it with [Service.Query], which never waits long. [Indexer]
// keeps the vectors of a set of texts, and [File] keeps them on disk.
//
// A [Registry] keeps which embedders a home has, and opens them.
package embed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/internal/panics"
)

// An Embedder computes vectors. Its methods are safe for concurrent use.
type Embedder interface {
	// Name identifies the model. Vectors may be compared if their names are equal.
	Name() string
	// Embed returns a vector of length 1 for each text, all of one dimension.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// Options are options of a [Service]. Zero values mean the defaults.
type Options struct {
	// Wait is how long a query waits for its vector. The default is 300 ms.
	Wait time.Duration
	// Rest is how long a failed embedder is not asked. The default is 30 s.
	Rest time.Duration
	// RequestTimeout is the longest time of one request. The default is 1 min.
	RequestTimeout time.Duration
}

const (
	cachedQueries = 2000
	maxQuery      = 2 << 10 // bytes of a query that count
	maxDimensions = 8192
	// maxAsked is the number of queries that may be computed at the same time. More are
	// answered without a vector.
	maxAsked = 4
)

// A Service is an embedder with bounds. Its methods are safe for concurrent use.
type Service struct {
	open    func(context.Context) (Embedder, error)
	o       Options
	ctx     context.Context
	stop    context.CancelFunc
	queries *lru.Cache[string, [][]float32]
	running sync.WaitGroup

	mu          sync.Mutex
	embedder    Embedder
	opening     chan struct{} // closed when the current attempt to open has ended
	asked       map[string]chan struct{}
	lastFailure error
	pausedUntil time.Time // the embedder is not asked before
	closed      bool
}

// New returns a service for the embedder that open returns. It is opened at its first use,
// and again after it could not be.
func New(open func(context.Context) (Embedder, error), o Options) *Service {
	if o.Wait <= 0 {
		o.Wait = 300 * time.Millisecond
	}
	if o.Rest <= 0 {
		o.Rest = 30 * time.Second
	}
	if o.RequestTimeout <= 0 {
		o.RequestTimeout = time.Minute
	}
	cache, err := lru.New[string, [][]float32](cachedQueries)
	if err != nil {
		panic(err) // only for a size below 1
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Service{open: open, o: o, ctx: ctx, stop: stop, queries: cache, asked: map[string]chan struct{}{}}
}

// Close ends all requests.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.running.Wait()
}

// Query returns the vector of a query, or nil and the reason; see [Service.Queries].
func (s *Service) Query(ctx context.Context, text string) (vector []float32, reason string) {
	vectors, reason := s.Queries(ctx, []string{text})
	if len(vectors) == 0 {
		return nil, reason
	}
	return vectors[0], ""
}

// Queries returns the vectors of the parts of a query, or nil and the reason. It waits for
// [Options.Wait] at most; vectors that come later serve the next search.
func (s *Service) Queries(ctx context.Context, parts []string) (vectors [][]float32, reason string) {
	left := maxQuery
	var texts []string
	for _, text := range parts {
		text = strings.Join(strings.Fields(text[:min(len(text), left)]), " ")
		left -= len(text)
		if text != "" {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return nil, ""
	}
	key := strings.Join(texts, "\n") // no text has a line end
	if v, ok := s.queries.Get(key); ok {
		return v, ""
	}
	done, reason := s.startQuery(key, texts)
	if reason != "" {
		return nil, reason
	}
	timer := time.NewTimer(s.o.Wait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		return nil, fmt.Sprintf("the embedder took longer than %s", s.o.Wait)
	case <-ctx.Done():
		return nil, "the search was cancelled"
	}
	if v, ok := s.queries.Get(key); ok {
		return v, ""
	}
	return nil, s.unavailableReason()
}

// startQuery starts to compute the vectors of a query, unless that is under way.
func (s *Service) startQuery(key string, texts []string) (done chan struct{}, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, ok := s.asked[key]; ok {
		return done, ""
	}
	switch {
	case s.closed:
		return nil, "the embedder has been closed"
	case time.Now().Before(s.pausedUntil):
		return nil, fmt.Sprintf("the embedder failed: %s", s.lastFailure)
	case len(s.asked) >= maxAsked:
		return nil, "the embedder is busy"
	}
	done = make(chan struct{})
	s.asked[key] = done
	s.running.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.asked, key)
			s.mu.Unlock()
			close(done)
		}()
		if vectors, err := s.Embed(s.ctx, texts); err == nil {
			s.queries.Add(key, vectors)
		}
	})
	return done, ""
}

func (s *Service) unavailableReason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastFailure != nil {
		return fmt.Sprintf("the embedder failed: %s", s.lastFailure)
	}
	return "the embedder gave no vector"
}

// Embed returns the vectors of texts. It waits for as long as the embedder takes, at most
// [Options.RequestTimeout] for a request, and fails at once while the embedder rests after a
// failure.
func (s *Service) Embed(ctx context.Context, texts []string) (vectors [][]float32, err error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	e, err := s.openEmbedder(ctx)
	if err != nil {
		return nil, err
	}
	if caught := panics.Catch(func() { vectors, err = e.Embed(ctx, texts) }); caught != nil {
		err = caught
	}
	if err == nil {
		err = checkVectors(vectors, len(texts))
	}
	return vectors, s.recordFailure(err)
}

// withTimeout returns a context that ends after [Options.RequestTimeout], and when the service is
// closed.
func (s *Service) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestTimeout)
	release := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { release(); cancel() }
}

func checkVectors(vectors [][]float32, texts int) error {
	if len(vectors) != texts {
		return fmt.Errorf("%d vectors for %d texts", len(vectors), texts)
	}
	for _, v := range vectors {
		if len(v) == 0 || len(v) > maxDimensions || len(v) != len(vectors[0]) {
			return fmt.Errorf("a vector has %d dimensions, the first one %d (at most %d)", len(v), len(vectors[0]), maxDimensions)
		}
	}
	return nil
}

// recordFailure remembers a failure, so that not every search waits for the next one.
func (s *Service) recordFailure(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.lastFailure, s.pausedUntil = nil, time.Time{}
	case !errors.Is(err, context.Canceled):
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", s.o.RequestTimeout)
		}
		s.lastFailure, s.pausedUntil = err, time.Now().Add(s.o.Rest)
	}
	return err
}

// openEmbedder returns the embedder, which one caller at a time opens.
func (s *Service) openEmbedder(ctx context.Context) (Embedder, error) {
	for {
		s.mu.Lock()
		switch {
		case s.embedder != nil:
			defer s.mu.Unlock()
			return s.embedder, nil
		case time.Now().Before(s.pausedUntil):
			defer s.mu.Unlock()
			return nil, s.lastFailure
		case s.opening == nil:
			opening := make(chan struct{})
			s.opening = opening
			s.mu.Unlock()
			var e Embedder
			var err error
			if caught := panics.Catch(func() { e, err = s.open(ctx) }); caught != nil {
				err = caught
			}
			if err = s.recordFailure(err); err != nil {
				e = nil // what comes with an error is not an embedder
			}
			s.mu.Lock()
			s.embedder, s.opening = e, nil
			s.mu.Unlock()
			close(opening)
			if err != nil {
				return nil, err
			}
			continue
		}
		opening := s.opening
		s.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Name returns the name of the embedder, which it opens if necessary.
func (s *Service) Name(ctx context.Context) (string, error) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	e, err := s.openEmbedder(ctx)
	if err != nil {
		return "", err
	}
	return e.Name(), nil
}

// Failure returns why the embedder is not asked at the moment, or nil.
func (s *Service) Failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastFailure
}

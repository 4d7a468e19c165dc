package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/internal/embed/registry"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/internal/search/learn"
)

// meaning is the embedder in use, and what keeps the vectors of tools.
type meaning struct {
	name    string
	entry   registry.Entry
	wait    time.Duration // as in the config
	service *embed.Service
	indexer *embed.Indexer
	wake    chan struct{}
	stop    func()
	running sync.WaitGroup
}

const (
	defaultWeight = 1
	// firstWait is how long the first search of a process that is no server waits: its
	// embedder must be opened first, and no other search will come.
	firstWait = 10 * time.Second
	// lookPeriod is how often a server looks whether an embedder was added or removed.
	lookPeriod = 5 * time.Second
)

// openLearner begins to learn from use.
func (r *App) openLearner() {
	r.learner = learn.New(r.store, learn.Options{Redact: func(s string) string { return string(r.redactor.Redact([]byte(s))) }, Log: r.log})
}

// learning is the catalog's learner, which the config may turn off at any time.
type learning struct{ *App }

func (l learning) Searched(who toolroom.Identity, session, query string, hits []string) {
	if l.Config().Search.Learns() {
		l.learner.Searched(who, session, query, hits)
	}
}

func (l learning) Recall(who toolroom.Identity) func(string) []search.Lesson {
	if !l.Config().Search.Learns() {
		return nil
	}
	return l.learner.Recall(who)
}

// learnFrom learns from the receipt of a call that ended well.
func (r *App) learnFrom(c *toolroom.Receipt) {
	if c.Status == toolroom.StatusOK {
		tool, _, _ := strings.Cut(c.Tool, "@") // without the version
		r.learner.Used(c.Identity, c.Session, tool)
	}
}

// ForgetSearches forgets what searches have learned of a tool, or of all tools if tool is
// empty. It returns the number of lessons: of one tool, one team and one caller each.
func (r *App) ForgetSearches(ctx context.Context, tool string) (int, error) {
	return r.learner.Forget(ctx, tool)
}

// applySearch uses the embedder that the config and the home choose.
func (r *App) applySearch(c *config.Config) error {
	known, err := registry.Load(r.home)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInternal, "embedders: %w", err).WithHint("remove the file; then add the embedders again")
	}
	name := cmp.Or(c.Search.Embedder, known.Chosen)
	entry, ok := known.Embedders[name]
	missing := ""
	if !ok && name != "" && name != config.NoEmbedder {
		missing = fmt.Sprintf("there is no embedder %q here", name)
	}
	r.catalog.SetMissingMeaning(missing)
	r.searching.Lock()
	defer r.searching.Unlock()
	old := r.meaning
	if old != nil && ok && old.entry == entry && old.name == name && old.wait == c.Search.Wait {
		r.setMeaning(old, c)
		return nil
	}
	if old != nil {
		r.catalog.SetMeaning(nil)
		r.meaning = nil
		r.background.Go(old.close)
	}
	if !ok {
		return nil
	}
	m, err := r.newMeaning(name, entry, c)
	if err != nil {
		return err
	}
	r.meaning = m
	r.setMeaning(m, c)
	if r.indexing {
		r.keepIndexed(m)
	}
	return nil
}

func (r *App) setMeaning(m *meaning, c *config.Config) {
	r.catalog.SetMeaning(&catalog.Meaning{Query: m.service.Query, Weight: cmp.Or(c.Search.Weight, defaultWeight)})
}

// embedder returns the embedder in use, nil if there is none.
func (r *App) embedder() *embed.Service {
	r.searching.Lock()
	defer r.searching.Unlock()
	if r.meaning == nil {
		return nil
	}
	return r.meaning.service
}

// Embedder opens an embedder of this room's network rules and secrets, bounded by the
// config's search section.
func (r *App) Embedder(entry registry.Entry) (*embed.Service, error) {
	return r.embedService(entry, r.Config(), firstWait)
}

func (r *App) embedService(entry registry.Entry, c *config.Config, wait time.Duration) (*embed.Service, error) {
	var transport http.RoundTripper
	address, err := entry.Address()
	if err != nil {
		return nil, err
	}
	if address != nil {
		guard, err := egress.New(c.Egress.Policy(config.Egress{}))
		if err != nil {
			return nil, err
		}
		transport = guard.WithOwn(address).Transport()
	}
	return embed.New(func(ctx context.Context) (embed.Embedder, error) {
		return entry.Open(ctx, transport, r.expanded(entry.Key))
	}, embed.Options{Wait: wait}), nil
}

func (r *App) newMeaning(name string, entry registry.Entry, c *config.Config) (*meaning, error) {
	wait := c.Search.Wait
	if !r.indexing {
		wait = max(wait, firstWait)
	}
	service, err := r.embedService(entry, c, wait)
	if err != nil {
		return nil, err
	}
	return &meaning{
		name: name, entry: entry, wait: c.Search.Wait, service: service, wake: make(chan struct{}, 1), stop: func() {},
		indexer: &embed.Indexer{Service: service, File: embed.File{Path: VectorsPath(r.home)}, Texts: r.catalog.Texts, Set: r.catalog.SetVectors},
	}, nil
}

// VectorsPath returns the file in which a home keeps the vectors of tools.
func VectorsPath(home string) string { return filepath.Join(home, "search", "tools.vectors") }

// keepIndexed embeds the tools in the background, now and whenever they change.
func (r *App) keepIndexed(m *meaning) {
	ctx, cancel := context.WithCancel(context.Background())
	unsubscribe := r.catalog.Subscribe(func([]toolroom.Change) {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	})
	m.stop = func() { unsubscribe(); cancel() }
	m.running.Go(func() { panics.Log(r.log, "embedding tools", func() { m.indexer.Run(ctx, m.wake) }) })
}

func (m *meaning) close() {
	m.stop()
	m.service.Close()
	m.running.Wait()
}

// startSearch begins the background work of searches in a server.
func (r *App) startSearch(ctx context.Context) {
	r.searching.Lock()
	r.indexing = true
	if r.meaning != nil {
		old := r.meaning
		r.meaning = nil
		r.background.Go(old.close)
	}
	r.searching.Unlock()
	look := func() {
		if err := r.applySearch(r.Config()); err != nil {
			r.log.Error("the embedder cannot be used", "error", err)
		}
	}
	look()
	r.background.Go(func() {
		var seen time.Time
		every(ctx, lookPeriod, func() {
			var changed time.Time
			if info, err := os.Stat(registry.Path(r.home)); err == nil {
				changed = info.ModTime()
			}
			if !changed.Equal(seen) {
				seen = changed
				panics.Log(r.log, "looking for embedders", look)
			}
		})
	})
}

func (r *App) closeSearch() {
	r.searching.Lock()
	m := r.meaning
	r.meaning = nil
	r.searching.Unlock()
	if m != nil {
		m.close()
	}
	if r.learner != nil {
		r.learner.Close()
	}
}

// recallVectors gives the tools the vectors that are known, in a process that is no server:
// it embeds nothing.
func (r *App) recallVectors(ctx context.Context) {
	r.searching.Lock()
	m := r.meaning
	indexing := r.indexing
	r.searching.Unlock()
	if m == nil || indexing {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstWait)
	defer cancel()
	if err := m.indexer.Recall(ctx); err != nil {
		r.log.Warn("searches are by words alone", "error", err)
	}
}

// SearchStatus says how searches find tools.
type SearchStatus struct {
	Embedder string         `json:"embedder,omitempty"`
	Entry    registry.Entry `json:"settings,omitzero"`
	embed.Progress
	Failure string `json:"failure,omitempty"`
	Learns  bool   `json:"learns"`
}

// SearchStatus returns how searches find tools now.
func (r *App) SearchStatus(ctx context.Context) SearchStatus {
	r.recallVectors(ctx)
	s := SearchStatus{Learns: r.Config().Search.Learns()}
	r.searching.Lock()
	defer r.searching.Unlock()
	if m := r.meaning; m != nil {
		s.Embedder, s.Entry, s.Progress = m.name, m.entry, m.indexer.State()
		if err := m.service.Failure(); err != nil {
			s.Failure = err.Error()
		} else if s.Err != nil {
			s.Failure = s.Err.Error()
		}
	}
	return s
}

// EmbedTools embeds all tools with an embedder, and keeps the vectors in the home.
func (r *App) EmbedTools(ctx context.Context, service *embed.Service, progress func(embed.Progress)) error {
	x := &embed.Indexer{
		Service: service, File: embed.File{Path: VectorsPath(r.home)},
		Texts: r.catalog.Texts, Set: func(map[string][]float32) {}, Progress: progress,
	}
	return x.Index(ctx)
}

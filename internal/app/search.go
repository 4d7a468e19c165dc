package app

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/search"
)

// semanticSearch is the embedder in use and the index of the tools' vectors.
type semanticSearch struct {
	name    string
	entry   embed.Entry
	wait    time.Duration // as in the config
	egress  config.Egress // of the connections
	service *embed.Service
	indexer *embed.Indexer
	wake    chan struct{}
	stop    func()
	running sync.WaitGroup
}

const (
	defaultWeight = 1
	// firstSearchWait is how long the first search waits in a process that is not a server.
	// Its embedder must be opened first, and there will probably be no other search.
	firstSearchWait = 10 * time.Second
	// embedderPollPeriod is how often a server checks whether an embedder was added or
	// removed.
	embedderPollPeriod = 5 * time.Second
)

// openLearner starts learning from calls, to improve searches.
func (a *App) openLearner() {
	a.learner = search.NewLearner(a.store, search.LearnerOptions{Redact: a.redactor.Text, Log: a.log})
}

// configuredLearner is the catalog's learner. The config may turn it off at any time.
type configuredLearner struct{ *App }

func (l configuredLearner) Searched(who toolroom.Identity, session, query string, hits []string) {
	if l.Config().Search.Learns() {
		l.learner.Searched(who, session, query, hits)
	}
}

func (l configuredLearner) Recall(who toolroom.Identity) func(string) []search.Lesson {
	if !l.Config().Search.Learns() {
		return nil
	}
	return l.learner.Recall(who)
}

// learnFrom learns from the receipt of a call that succeeded.
func (a *App) learnFrom(c *toolroom.Receipt) {
	if c.Status == toolroom.StatusOK {
		tool, _, _ := strings.Cut(c.Tool, "@") // without the version
		a.learner.Used(c.Identity, c.Session, tool)
	}
}

// ForgetSearches removes what searches have learned about a tool, or about all tools if
// tool is empty. It returns the number of removed lessons; each is of one tool, one team
// and one caller.
func (a *App) ForgetSearches(ctx context.Context, tool string) (int, error) {
	return a.learner.Forget(ctx, tool)
}

// applySearch uses the embedder that the config and the home choose.
func (a *App) applySearch(c *config.Config) error {
	known, err := embed.LoadRegistry(a.home)
	if err != nil {
		a.catalog.SetMissingMeaning("the file of embedders cannot be read")
		return toolroom.Errorf(toolroom.CodeInternal, "embedders: %w", err).WithHint("remove the file; then add the embedders again")
	}
	name := cmp.Or(c.Search.Embedder, known.Chosen)
	entry, ok := known.Embedders[name]
	missing := ""
	if !ok && name != "" && name != config.NoEmbedder {
		missing = fmt.Sprintf("there is no embedder %q here", name)
	}
	a.catalog.SetMissingMeaning(missing)
	a.searchMu.Lock()
	defer a.searchMu.Unlock()
	old := a.semantic
	if old != nil && ok && old.entry == entry && old.name == name && old.wait == c.Search.Wait && reflect.DeepEqual(old.egress, c.Egress) {
		a.setSemantic(old, c)
		return nil
	}
	if old != nil {
		a.catalog.SetMeaning(nil)
		a.semantic = nil
		a.background.Go(old.close)
	}
	if !ok {
		return nil
	}
	m, err := a.newSemanticSearch(name, entry, c)
	if err != nil {
		return err
	}
	a.semantic = m
	a.setSemantic(m, c)
	if a.indexing {
		a.keepIndexed(m)
	}
	return nil
}

func (a *App) setSemantic(m *semanticSearch, c *config.Config) {
	a.catalog.SetMeaning(&catalog.Meaning{Query: m.service.Queries, Weight: cmp.Or(c.Search.Weight, defaultWeight)})
}

// embedder returns the embedder in use, nil if there is none.
func (a *App) embedder() *embed.Service {
	a.searchMu.Lock()
	defer a.searchMu.Unlock()
	if a.semantic == nil {
		return nil
	}
	return a.semantic.service
}

// Embedder opens an embedder with this room's network rules and secrets, and with the
// limits of the config's search section.
func (a *App) Embedder(entry embed.Entry) (*embed.Service, error) {
	return a.embedService(entry, a.Config(), firstSearchWait)
}

func (a *App) embedService(entry embed.Entry, c *config.Config, wait time.Duration) (*embed.Service, error) {
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
		return entry.Open(ctx, transport, a.expander(entry.Key))
	}, embed.Options{Wait: wait}), nil
}

func (a *App) newSemanticSearch(name string, entry embed.Entry, c *config.Config) (*semanticSearch, error) {
	wait := c.Search.Wait
	if !a.indexing {
		wait = max(wait, firstSearchWait)
	}
	service, err := a.embedService(entry, c, wait)
	if err != nil {
		return nil, err
	}
	return &semanticSearch{
		name: name, entry: entry, wait: c.Search.Wait, egress: c.Egress, service: service, wake: make(chan struct{}, 1), stop: func() {},
		indexer: &embed.Indexer{Service: service, File: embed.File{Path: VectorsPath(a.home)}, Texts: a.catalog.Texts, Set: a.catalog.SetVectors},
	}, nil
}

// VectorsPath returns the file in which a home stores the vectors of tools.
func VectorsPath(home string) string { return filepath.Join(home, "search", "tools.vectors") }

// keepIndexed embeds the tools in the background, now and whenever they change.
func (a *App) keepIndexed(m *semanticSearch) {
	ctx, cancel := context.WithCancel(context.Background())
	unsubscribe := a.catalog.Subscribe(func([]toolroom.Change) {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	})
	m.stop = func() { unsubscribe(); cancel() }
	m.running.Go(func() { panics.Log(a.log, "embedding tools", func() { m.indexer.Run(ctx, m.wake) }) })
}

func (m *semanticSearch) close() {
	m.stop()
	m.service.Close()
	m.running.Wait()
}

// startSearch begins the background work of searches in a server.
func (a *App) startSearch(ctx context.Context) {
	a.searchMu.Lock()
	a.indexing = true
	if a.semantic != nil {
		old := a.semantic
		a.semantic = nil
		a.background.Go(old.close)
	}
	a.searchMu.Unlock()
	look := func() {
		if err := a.applySearch(a.Config()); err != nil {
			a.log.Error("the embedder cannot be used", "error", err)
		}
	}
	look()
	a.background.Go(func() {
		var seen time.Time
		every(ctx, embedderPollPeriod, func() {
			var changed time.Time
			if info, err := os.Stat(embed.RegistryPath(a.home)); err == nil {
				changed = info.ModTime()
			}
			if !changed.Equal(seen) {
				seen = changed
				panics.Log(a.log, "looking for embedders", look)
			}
		})
	})
}

func (a *App) closeSearch() {
	a.searchMu.Lock()
	m := a.semantic
	a.semantic = nil
	a.searchMu.Unlock()
	if m != nil {
		m.close()
	}
	if a.learner != nil {
		a.learner.Close()
	}
}

// recallVectors gives the tools their stored vectors, in a process that is not a server. It
// embeds nothing.
func (a *App) recallVectors(ctx context.Context) {
	a.searchMu.Lock()
	m := a.semantic
	indexing := a.indexing
	a.searchMu.Unlock()
	if m == nil || indexing {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstSearchWait)
	defer cancel()
	if err := m.indexer.Recall(ctx); err != nil {
		a.log.Warn("searches are by words alone", "error", err)
	}
}

// SearchStatus describes how searches find tools.
type SearchStatus struct {
	Embedder string      `json:"embedder,omitempty"`
	Entry    embed.Entry `json:"settings,omitzero"`
	embed.Progress
	Failure string `json:"failure,omitempty"`
	Learns  bool   `json:"learns"`
}

// SearchStatus returns how searches find tools now.
func (a *App) SearchStatus(ctx context.Context) SearchStatus {
	a.recallVectors(ctx)
	s := SearchStatus{Learns: a.Config().Search.Learns()}
	a.searchMu.Lock()
	defer a.searchMu.Unlock()
	if m := a.semantic; m != nil {
		s.Embedder, s.Entry, s.Progress = m.name, m.entry, m.indexer.State()
		if err := m.service.Failure(); err != nil {
			s.Failure = err.Error()
		} else if s.Err != nil {
			s.Failure = s.Err.Error()
		}
	}
	return s
}

// EmbedTools embeds all tools with an embedder, and stores the vectors in the home.
func (a *App) EmbedTools(ctx context.Context, service *embed.Service, progress func(embed.Progress)) error {
	x := &embed.Indexer{
		Service: service, File: embed.File{Path: VectorsPath(a.home)},
		Texts: a.catalog.Texts, Set: func(map[string][]float32) {}, Progress: progress,
	}
	return x.Index(ctx)
}

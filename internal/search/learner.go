package search

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/panics"
)

// LessonStore keeps lessons.
type LessonStore interface {
	// Lessons returns all lessons, the latest first.
	Lessons(ctx context.Context) ([]LessonRecord, error)
	// UpdateLesson stores what change returns for the lesson with this key, which it gets
	// without terms if there is none. Nobody else changes the lesson meanwhile.
	UpdateLesson(ctx context.Context, key LessonKey, change func(LessonRecord) LessonRecord) error
	// ForgetLessons removes the lessons of a tool, or all if tool is empty, and returns
	// their number.
	ForgetLessons(ctx context.Context, tool string) (int, error)
	// PruneLessons removes the lessons last changed before a time, and all but the latest.
	PruneLessons(ctx context.Context, before time.Time, latest int) error
}

// LearnerOptions are options of a [Learner]. All may be nil.
type LearnerOptions struct {
	Now func() time.Time
	// Redact removes secrets from a query before its words are kept.
	Redact func(string) string
	Log    *slog.Logger
}

const (
	window      = 5 * time.Minute // in which a call follows a search
	maxPending  = 10_000          // sessions with a search in that time
	maxRecent   = 3               // searches of one session
	maxQueue    = 256             // uses that wait to be stored; more are lost
	reload      = time.Minute     // after which lessons of other processes count
	maxLessons  = 5000
	maxAge      = 8 * HalfLife
	storeWithin = 10 * time.Second
)

// A Learner learns for a room. Its methods are safe for concurrent use.
type Learner struct {
	store LessonStore
	o     LearnerOptions
	queue chan toolUse
	done  chan struct{}
	ctx   context.Context // of storing; ends when Close gives up
	stop  context.CancelFunc

	mu      sync.Mutex
	closed  bool
	pending map[session][]pendingSearch

	loading sync.Mutex // held by the one who reads the store

	lessons sync.RWMutex
	loaded  time.Time
	// learned are the lessons since the reading under way began; nil if there is none.
	learned []LessonRecord
	byKey   map[LessonKey]LessonRecord
	// teams holds weights by team, term, tool and caller. They are those of the epoch: a
	// weight of today is less by the time since then, the same for all.
	teams map[string]map[string]map[string]map[string]float64
	epoch time.Time
}

type session struct{ caller, id string }

// pendingSearch is a search that waits for a call.
type pendingSearch struct {
	terms []string
	hits  []string
	at    time.Time
}

type toolUse struct {
	key   LessonKey
	terms []string
	flush chan struct{} // if not nil, this is no use: all before it are stored
}

// NewLearner returns a learner, which Close ends.
func NewLearner(store LessonStore, o LearnerOptions) *Learner {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Learner{store: store, o: o, queue: make(chan toolUse, maxQueue), done: make(chan struct{}), pending: map[session][]pendingSearch{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	go func() {
		defer close(l.done)
		panics.Log(o.Log, "learning from use", l.storeUses)
	}()
	return l
}

// Close stores what was learned and ends. Later uses are not learned. If the store takes longer
// than for one use, the remaining ones are lost.
func (l *Learner) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	defer l.stop()
	defer time.AfterFunc(storeWithin, l.stop).Stop()
	<-l.done
}

// Flush waits until all uses so far are stored.
func (l *Learner) Flush() {
	flushed := make(chan struct{})
	l.mu.Lock()
	if l.closed {
		close(flushed)
	} else {
		l.queue <- toolUse{flush: flushed}
	}
	l.mu.Unlock()
	<-flushed
}

// Searched records a search, with the tools that were found.
func (l *Learner) Searched(who toolroom.Identity, id, query string, hits []string) {
	terms := Terms(l.o.Redact(query))
	if len(terms) == 0 {
		return
	}
	now := l.o.Now()
	key := session{identity.Owner(who), id}
	l.mu.Lock()
	defer l.mu.Unlock()
	recent := l.recentSearches(key, now)
	if len(recent) == 0 && len(l.pending) >= maxPending {
		l.dropOld(now)
	}
	if len(recent) >= maxRecent {
		recent = recent[1:]
	}
	l.pending[key] = append(slices.Clip(recent), pendingSearch{terms, hits, now})
}

// dropOld makes room: for a new session the others' old searches go, at last all.
func (l *Learner) dropOld(now time.Time) {
	for key := range l.pending {
		if len(l.recentSearches(key, now)) == 0 {
			delete(l.pending, key)
		}
	}
	if len(l.pending) >= maxPending {
		clear(l.pending)
	}
}

func (l *Learner) recentSearches(key session, now time.Time) []pendingSearch {
	return slices.DeleteFunc(slices.Clone(l.pending[key]), func(s pendingSearch) bool { return now.Sub(s.at) > window })
}

// Used records a call that ended well. If a recent search of the same session found the
// tool, its words and those of the searches just before it are learned; each search teaches
// once.
func (l *Learner) Used(who toolroom.Identity, id, tool string) {
	now := l.o.Now()
	key := session{identity.Owner(who), id}
	l.mu.Lock()
	recent := l.recentSearches(key, now)
	if !slices.ContainsFunc(recent, func(s pendingSearch) bool { return slices.Contains(s.hits, tool) }) {
		l.mu.Unlock()
		return
	}
	delete(l.pending, key)
	l.mu.Unlock()
	var terms []string
	for _, s := range recent {
		terms = append(terms, s.terms...)
	}
	l.Learn(who, tool, terms)
}

// Learn records a use of a tool after a search with these terms.
func (l *Learner) Learn(who toolroom.Identity, tool string, terms []string) {
	terms = slices.Compact(slices.Sorted(slices.Values(terms)))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.queue <- toolUse{key: LessonKey{TeamOf(who), tool, who.Key()}, terms: terms}:
	default: // learning must not slow calls down
	}
}

// storeUses stores uses until the queue is closed.
func (l *Learner) storeUses() {
	ctx := l.ctx
	stored := 0
	for u := range l.queue {
		if u.flush != nil {
			close(u.flush)
			continue
		}
		if ctx.Err() != nil {
			continue
		}
		if err := l.storeUse(ctx, u); err != nil {
			l.o.Log.Warn("a use of a tool was not learned", "tool", u.key.Tool, "error", err)
		}
		if stored++; stored%500 == 1 {
			ctx, cancel := context.WithTimeout(ctx, storeWithin)
			if err := l.store.PruneLessons(ctx, l.o.Now().Add(-maxAge), maxLessons); err != nil {
				l.o.Log.Warn("old lessons of searches were not removed", "error", err)
			}
			cancel()
		}
	}
}

func (l *Learner) storeUse(ctx context.Context, u toolUse) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	var next LessonRecord
	err := l.store.UpdateLesson(ctx, u.key, func(old LessonRecord) LessonRecord {
		next = old.withUse(u.terms, l.o.Now())
		return next
	})
	if err != nil {
		return err
	}
	l.lessons.Lock()
	defer l.lessons.Unlock()
	if l.byKey != nil {
		l.replaceLesson(next)
	}
	if l.learned != nil {
		l.learned = append(l.learned, next)
	}
	return nil
}

// loadLessons reads the lessons if they have not been read for a minute. Meanwhile searches use
// those that are there; only the first wait.
func (l *Learner) loadLessons() {
	now := l.o.Now()
	state := func() (there, fresh bool) {
		l.lessons.RLock()
		defer l.lessons.RUnlock()
		return l.byKey != nil, l.byKey != nil && now.Sub(l.loaded) < reload
	}
	there, fresh := state()
	switch {
	case fresh:
		return
	case !there:
		l.loading.Lock()
	case !l.loading.TryLock():
		return
	}
	defer l.loading.Unlock()
	if _, fresh := state(); fresh {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeWithin)
	defer cancel()
	l.lessons.Lock()
	l.loaded, l.learned = now, []LessonRecord{}
	l.lessons.Unlock()
	all, err := l.store.Lessons(ctx)
	l.lessons.Lock()
	defer l.lessons.Unlock()
	learned := l.learned
	l.learned = nil
	if err != nil {
		l.o.Log.Warn("what searches have learned cannot be read", "error", err)
		return
	}
	l.byKey, l.teams, l.epoch = map[LessonKey]LessonRecord{}, map[string]map[string]map[string]map[string]float64{}, now
	callers := map[LessonKey]int{} // by team and tool
	for _, lesson := range all[:min(len(all), maxLessons)] {
		of := LessonKey{Team: lesson.Team, Tool: lesson.Tool}
		if callers[of]++; callers[of] <= maxCallers {
			l.replaceLesson(lesson)
		}
	}
	for _, lesson := range learned {
		l.replaceLesson(lesson)
	}
}

// replaceLesson puts a lesson in the place of the one with its key. The caller holds the lock.
func (l *Learner) replaceLesson(next LessonRecord) {
	team := l.teams[next.Team]
	if team == nil {
		team = map[string]map[string]map[string]float64{}
		l.teams[next.Team] = team
	}
	for term := range l.byKey[next.LessonKey].Terms {
		delete(team[term][next.Tool], next.Caller)
		if len(team[term][next.Tool]) == 0 {
			delete(team[term], next.Tool)
		}
	}
	scale := math.Exp2(float64(next.At.Sub(l.epoch)) / float64(HalfLife))
	for term, weight := range next.Terms {
		if team[term] == nil {
			team[term] = map[string]map[string]float64{}
		}
		if team[term][next.Tool] == nil {
			team[term][next.Tool] = map[string]float64{}
		}
		team[term][next.Tool][next.Caller] = weight * scale
	}
	l.byKey[next.LessonKey] = next
}

// Recall returns what the team of a caller has learned, for [Options]. What the
// caller itself has taught counts in full, and each other caller as half a use at most.
func (l *Learner) Recall(who toolroom.Identity) func(term string) []Lesson {
	l.loadLessons()
	team, caller := TeamOf(who), who.Key()
	now := l.o.Now()
	return func(term string) []Lesson {
		l.lessons.RLock()
		defer l.lessons.RUnlock()
		faded := decay(now.Sub(l.epoch))
		var found []Lesson
		for tool, callers := range l.teams[team][term] {
			sum := 0.0
			for from, weight := range callers {
				most := maxForeign
				if from == caller {
					most = maxOwn
				}
				sum += min(weight*faded, most)
			}
			if sum >= minWeight {
				found = append(found, Lesson{ID: tool, Weight: sum})
			}
		}
		return found
	}
}

// Forget removes what was learned of a tool, or all if tool is empty, and returns the number
// of lessons.
func (l *Learner) Forget(ctx context.Context, tool string) (int, error) {
	n, err := l.store.ForgetLessons(ctx, tool)
	l.lessons.Lock()
	defer l.lessons.Unlock()
	l.byKey = nil // read again
	return n, err
}

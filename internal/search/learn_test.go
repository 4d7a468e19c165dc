package search_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// bench is a learner on a real store, with tools to search and a clock to turn.
type bench struct {
	*search.Learner
	t     *testing.T
	store *sqlite.Store
	index search.Index
	now   time.Time
	open  func() *search.Learner
}

func newBench(t *testing.T) *bench {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "toolroom.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	b := &bench{t: t, store: store, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.open = func() *search.Learner {
		l := search.NewLearner(store, search.LearnerOptions{
			Now:    func() time.Time { return b.now },
			Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "") },
		})
		t.Cleanup(l.Close)
		return l
	}
	b.Learner = b.open()
	b.index.Put(
		search.Document{ID: "papers:find", Name: "find", Description: "Find academic papers and their bibliography."},
		search.Document{ID: "pay:invoice", Name: "pay_invoice", Description: "Pay an invoice."},
		search.Document{ID: "evil:collect", Name: "collect", Description: "Collects things."},
		search.Document{ID: "misc:other", Name: "other", Description: "Does something else with an invoice, papers and things."},
	)
	return b
}

// uses searches and calls the tool that the search found.
func (b *bench) uses(who toolroom.Identity, query, tool string, times int) {
	b.t.Helper()
	for range times {
		b.Searched(who, "", query, []string{tool})
		b.Used(who, "", tool)
		b.Flush()
	}
}

func (b *bench) search(who toolroom.Identity, query string) []search.Hit {
	return b.index.Search(query, search.Options{Learned: b.Recall(who)})
}

func (b *bench) first(who toolroom.Identity, query string) string {
	hits := b.search(who, query)
	if len(hits) == 0 {
		return ""
	}
	return hits[0].ID
}

func person(name string, groups ...string) toolroom.Identity {
	return toolroom.Identity{Subject: name, Groups: groups}
}

func TestAToolThatWasUsedAfterASearchIsFoundByItsWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann := person("ann")
	if got := b.first(ann, "bibtex entry"); got != "" {
		t.Fatalf("before: %s", got)
	}
	b.uses(ann, "bibtex entry", "papers:find", 1)
	hits := b.search(ann, "a bibtex for this")
	if len(hits) != 1 || hits[0].ID != "papers:find" {
		t.Fatalf("after: %+v", hits)
	}
	if why := hits[0].Why; len(why) != 1 || why[0] != (toolroom.Match{Term: "bibtex", Field: "use"}) {
		t.Errorf("why: %+v", why)
	}
	if got := b.open().Recall(ann)("bibtex"); len(got) != 1 {
		t.Errorf("after a restart: %v", got)
	}
}

func TestWordsOfSearchesBeforeTheOneThatFoundTheToolCountToo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann := person("ann")
	b.Searched(ann, "s", "bibtex", nil)
	b.Searched(ann, "s", "academic bibliography", []string{"papers:find"})
	b.Used(ann, "s", "papers:find")
	b.Flush()
	if got := b.first(ann, "bibtex"); got != "papers:find" {
		t.Errorf("found %q", got)
	}
}

func TestOnlyACallThatFollowsASearchOfItsSessionTeaches(t *testing.T) {
	t.Parallel()
	ann := person("ann")
	for name, act := range map[string]func(b *bench){
		"another session": func(b *bench) {
			b.Searched(ann, "one", "bibtex", []string{"papers:find"})
			b.Used(ann, "two", "papers:find")
		},
		"another caller": func(b *bench) {
			b.Searched(person("bob"), "one", "bibtex", []string{"papers:find"})
			b.Used(ann, "one", "papers:find")
		},
		"a tool that no search found": func(b *bench) {
			b.Searched(ann, "one", "bibtex", []string{"misc:other"})
			b.Used(ann, "one", "papers:find")
		},
		"too late": func(b *bench) {
			b.Searched(ann, "one", "bibtex", []string{"papers:find"})
			b.now = b.now.Add(6 * time.Minute)
			b.Used(ann, "one", "papers:find")
		},
		"secrets and numbers": func(b *bench) {
			b.Searched(ann, "one", "hunter2 4711", []string{"papers:find"})
			b.Used(ann, "one", "papers:find")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			act(b)
			b.Flush()
			for _, query := range []string{"bibtex", "hunter2", "4711"} {
				if got := b.first(ann, query); got != "" {
					t.Errorf("%q finds %s", query, got)
				}
			}
		})
	}
}

func TestEachSearchTeachesOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann := person("ann")
	b.Searched(ann, "", "bibtex", []string{"papers:find", "misc:other"})
	b.Used(ann, "", "papers:find")
	b.Used(ann, "", "misc:other")
	b.Used(ann, "", "papers:find")
	b.Flush()
	got := b.Recall(ann)("bibtex")
	if len(got) != 1 || got[0].ID != "papers:find" || got[0].Weight != 1 {
		t.Errorf("learned %+v", got)
	}
}

func TestWhatIsLearnedStaysInTheTeam(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.uses(person("ann", "research", "staff"), "bibtex", "papers:find", 3)
	for who, want := range map[*toolroom.Identity]string{
		{Subject: "ann", Groups: []string{"staff", "research"}}: "papers:find",
		{Subject: "bob", Groups: []string{"staff", "research"}}: "papers:find",
		{Subject: "bob", Groups: []string{"staff"}}:             "",
		{Subject: "ann"}:                         "",
		{Subject: `groups ["research","staff"]`}: "",
		{}:                                       "",
	} {
		if got := b.first(*who, "bibtex"); got != want {
			t.Errorf("%v of %v finds %q, want %q", who, who.Groups, got, want)
		}
	}
}

func TestAFloodOfOneCallerDoesNotPoisonOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mallory, victim := person("mallory", "team"), person("victim", "team")
	for i := range 1000 {
		who := mallory
		who.Agent = fmt.Sprint("agent", i) // a claim, which anyone may make
		b.Searched(who, fmt.Sprint(i), "pay an invoice", []string{"evil:collect"})
		b.Used(who, fmt.Sprint(i), "evil:collect")
		if i%100 == 0 {
			b.Flush()
		}
	}
	b.Flush()
	for _, query := range []string{"pay an invoice", "pay", "invoice", "please pay this invoice today"} {
		if got := b.first(victim, query); got != "pay:invoice" {
			t.Errorf("after a flood %q finds %s for another of the team", query, got)
		}
	}
	b.uses(victim, "pay an invoice", "pay:invoice", 1)
	if got := b.first(victim, "invoice"); got != "pay:invoice" {
		t.Errorf("found %s", got)
	}
	// Several callers who agree do count.
	for i := range 8 {
		b.uses(person(fmt.Sprint("colleague", i), "team"), "settle the bill", "pay:invoice", 1)
	}
	b.uses(mallory, "settle the bill", "evil:collect", 50)
	if got := b.first(victim, "settle the bill"); got != "pay:invoice" {
		t.Errorf("eight colleagues against one: found %s", got)
	}
}

func TestWhatIsLearnedFades(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann := person("ann")
	b.uses(ann, "bibtex", "papers:find", 4)
	weight := func() float64 {
		for _, l := range b.Recall(ann)("bibtex") {
			return l.Weight
		}
		return 0
	}
	before := weight()
	b.now = b.now.Add(search.HalfLife)
	if got := weight(); before != 4 || got < 1.99 || got > 2.01 {
		t.Errorf("weight %v, after a half-life %v", before, got)
	}
	b.now = b.now.Add(7 * search.HalfLife)
	if got := weight(); got != 0 {
		t.Errorf("after eight half-lives %v", got)
	}
}

func TestWhatIsLearnedIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann := person("ann")
	for i := range 400 {
		b.Learn(ann, "papers:find", []string{"bibtex", fmt.Sprint("word", i)})
		if i%100 == 0 {
			b.Flush()
		}
	}
	b.Flush()
	if got := b.Recall(ann)("bibtex"); len(got) != 1 || got[0].Weight > 20 {
		t.Errorf("learned %+v", got)
	}
	words := 0
	for i := range 400 {
		words += len(b.Recall(ann)(fmt.Sprint("word", i)))
	}
	if words > 128 {
		t.Errorf("%d words of one tool and caller", words)
	}
}

func TestForgettingTakesEffectAtOnceAndElsewhereWithinAMinute(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ann := person("ann")
	b.uses(ann, "bibtex", "papers:find", 2)
	b.uses(ann, "things", "evil:collect", 2)
	other := b.open()
	if len(other.Recall(ann)("bibtex")) != 1 {
		t.Fatal("another process does not know the lesson")
	}
	if n, err := b.Forget(context.Background(), "papers:find"); n != 1 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
	if got := b.Recall(ann)("bibtex"); len(got) != 0 {
		t.Errorf("still known: %v", got)
	}
	if got := b.Recall(ann)("thing"); len(got) != 1 {
		t.Errorf("the other tool's: %v", got)
	}
	b.now = b.now.Add(time.Minute)
	if got := other.Recall(ann)("bibtex"); len(got) != 0 {
		t.Errorf("still known elsewhere: %v", got)
	}
}

// slowStore is a store whose reading can be held up.
type slowStore struct {
	search.LessonStore
	reading, goOn chan struct{}
}

func (s *slowStore) Lessons(ctx context.Context) ([]search.LessonRecord, error) {
	all, err := s.LessonStore.Lessons(ctx)
	s.reading <- struct{}{}
	<-s.goOn
	return all, err
}

func TestSearchesAndLearningGoOnWhileLessonsAreRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.uses(person("ann"), "bibliography", "pay:invoice", 8)
	slow := &slowStore{b.store, make(chan struct{}, 1), make(chan struct{}, 2)}
	b.Learner = search.NewLearner(slow, search.LearnerOptions{Now: func() time.Time { return b.now }})
	t.Cleanup(b.Close)
	slow.goOn <- struct{}{}
	if got := b.first(person("ann"), "bibliography"); got != "pay:invoice" {
		t.Fatalf("first %s", got)
	}
	<-slow.reading
	b.now = b.now.Add(2 * time.Minute)
	first := make(chan []search.Hit, 1)
	go func() { first <- b.search(person("ann"), "bibliography") }()
	<-slow.reading // and the answer does not come
	if got := b.first(person("ann"), "bibliography"); got != "pay:invoice" {
		t.Errorf("while lessons are read: %s", got)
	}
	b.uses(person("ann"), "gardening", "misc:other", 8)
	slow.goOn <- struct{}{}
	<-first
	if got := b.first(person("ann"), "gardening"); got != "misc:other" {
		t.Errorf("what was learned meanwhile is lost: %q", got)
	}
}

func TestANarrowedTokenTeachesNothingToTheWiderOneOfItsSubject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	narrowed := toolroom.Identity{Subject: "ann", Agent: "fast"}
	b.uses(narrowed, "collect bills", "evil:collect", 10)
	for name, who := range map[string]toolroom.Identity{
		"ann": {Subject: "ann"}, "another agent": {Subject: "ann", Agent: "slow"}, "without scopes": {Subject: "ann", Agent: "fast", Scopes: []string{}},
	} {
		if lessons := b.Recall(who)("bill"); len(lessons) > 0 {
			t.Errorf("%s has learned %v from the agent", name, lessons)
		}
		b.Searched(who, "", "collect bills", []string{"evil:collect"})
	}
	if lessons := b.Recall(narrowed)("bill"); len(lessons) != 1 {
		t.Errorf("the agent itself has learned %v", lessons)
	}
	member := toolroom.Identity{Subject: "ann", Groups: []string{"staff"}, Agent: "fast"}
	b.uses(member, "collect bills", "evil:collect", 10)
	if lessons := b.Recall(toolroom.Identity{Subject: "ann", Groups: []string{"staff"}})("bill"); len(lessons) > 0 {
		t.Errorf("a member of a group has learned %v from its agent", lessons)
	}
	// Its call is not the one that another's search was for.
	b.Searched(toolroom.Identity{Subject: "ann"}, "s", "settle what is owed", []string{"pay:invoice"})
	b.Used(narrowed, "s", "pay:invoice")
	b.Flush()
	if lessons := b.Recall(narrowed)("owe"); len(lessons) > 0 {
		t.Errorf("the agent was taught %v by another's search", lessons)
	}
}

// stuckStore is a store whose disk does not answer.
type stuckStore struct{ search.LessonStore }

func (stuckStore) UpdateLesson(ctx context.Context, _ search.LessonKey, _ func(search.LessonRecord) search.LessonRecord) error {
	<-ctx.Done()
	return ctx.Err()
}

func (stuckStore) PruneLessons(context.Context, time.Time, int) error { return nil }

func TestCloseWaitsForAStoreOnlyOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := search.NewLearner(stuckStore{}, search.LearnerOptions{})
		for range 100 {
			l.Learn(person("ann"), "pay:invoice", []string{"invoice"})
		}
		began := time.Now()
		l.Close()
		if waited := time.Since(began); waited > 20*time.Second {
			t.Errorf("Close took %s", waited)
		}
		l.Close() // which is allowed
	})
}

package search

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
)

// A LessonKey names a lesson: what the uses of one tool by one caller have taught a team.
type LessonKey struct {
	Team, Tool, Caller string
}

// A LessonRecord holds the words of searches after which a tool was used.
type LessonRecord struct {
	LessonKey
	// Terms are the weights of words at the time At: about the number of uses, of which
	// half is forgotten after [HalfLife].
	Terms map[string]float64
	At    time.Time
}

// HalfLife is the time after which a use counts half.
const HalfLife = 30 * 24 * time.Hour

// Bounds on what is learned.
const (
	maxOwn        = 20.0 // weight of a term for the caller who taught it
	maxForeign    = 0.5  // and for others: a flood of one caller is half a use
	learnMaxTerms = 128  // of one lesson
	minWeight     = 0.05 // what is less is forgotten
	maxCallers    = 64   // of one tool in a team
)

// TeamOf returns the team of a caller: those who have the same groups, and are narrowed alike
// otherwise. A caller without groups is a team of its own, with those that are narrowed alike.
func TeamOf(who toolroom.Identity) string {
	if len(who.Groups) == 0 {
		return "caller " + identity.Owner(who)
	}
	who.Subject = ""
	all := identity.Owner(who)
	who.Agent, who.Provider, who.Skill, who.Scopes = "", "", "", nil
	if all != identity.Owner(who) {
		return "narrowed " + all
	}
	groups := slices.Compact(slices.Sorted(slices.Values(who.Groups)))
	name, err := json.Marshal(groups)
	if err != nil {
		panic(err) // strings only
	}
	return "groups " + string(name)
}

func decay(age time.Duration) float64 {
	return math.Exp2(-float64(max(age, 0)) / float64(HalfLife))
}

// withUse returns the lesson after one more use.
func (l LessonRecord) withUse(terms []string, now time.Time) LessonRecord {
	faded := decay(now.Sub(l.At))
	next := LessonRecord{LessonKey: l.LessonKey, Terms: make(map[string]float64, len(l.Terms)+len(terms)), At: now}
	for term, weight := range l.Terms {
		if weight *= faded; weight >= minWeight {
			next.Terms[term] = weight
		}
	}
	for _, term := range terms {
		next.Terms[term] = min(next.Terms[term]+1, maxOwn)
	}
	if spare := len(next.Terms) - learnMaxTerms; spare > 0 {
		least := slices.SortedFunc(maps.Keys(next.Terms), func(a, b string) int {
			if next.Terms[a] != next.Terms[b] {
				return int(math.Copysign(1, next.Terms[a]-next.Terms[b]))
			}
			return strings.Compare(a, b)
		})
		for _, term := range least[:spare] {
			delete(next.Terms, term)
		}
	}
	return next
}

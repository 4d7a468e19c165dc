package js

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

// stars counts what esbuild would do about `export * from` before it does it. It takes every
// way through files that export one another so, of which a dozen files have billions, and
// nothing stops it. So such files are bundled without these exports first.
type stars struct {
	mu      sync.Mutex
	to      map[string][]string // the imports of a file with such exports
	exports map[string]int      // how many names a file may export
}

func newStars() *stars { return &stars{to: map[string][]string{}, exports: map[string]int{}} }

// gap matches what may stand between two words of a statement.
const gap = `(?:[^\w$"'` + "`" + `{}()*/]|/\*(?s:.*?)\*/|//[^\n\r\x{2028}\x{2029}]*)*`

// starred matches `export * from "…"`, also in a text or comment, where it does no harm.
var starred = regexp.MustCompile(`\bexport` + gap + `\*` + gap + `from` + gap + `("[^"\n]*"|'[^'\n]*')`)

// exported matches the beginning of an export, with its list of names.
var exported = regexp.MustCompile(`\bexport\b(?:[^{}"'` + "`" + `;]*\{[^}]*\})?`)

// maxExported bounds the exports of all files, each times the length of its file. esbuild
// reports all that are there twice, and reads the file up to there for each.
const maxExported = 300_000_000

// exportsOf returns the exports of a file, each times the length of the file.
func exportsOf(text string) int {
	exports := 0
	for _, one := range exported.FindAllString(text, -1) {
		exports += 1 + strings.Count(one, ",")
	}
	return exports * len(text)
}

// plain returns the text of a file in which each `export * from "…"` only imports.
func (s *stars) plain(file, text string) string {
	plain := starred.ReplaceAllString(text, "import $1")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exports[file] = strings.Count(text, "export") + strings.Count(text, ",")
	if plain != text {
		s.to[file] = []string{}
	}
	return plain
}

// watch notes what files import.
func (s *stars) watch(b api.PluginBuild) {
	b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		from := a.Namespace + ":" + a.Importer
		s.mu.Lock()
		_, known := s.to[from]
		s.mu.Unlock()
		if !known || a.PluginData == s { // then it is asked for below
			return api.OnResolveResult{}, nil
		}
		found := b.Resolve(a.Path, api.ResolveOptions{Importer: a.Importer, Namespace: a.Namespace, ResolveDir: a.ResolveDir, Kind: a.Kind, PluginData: s})
		s.mu.Lock()
		defer s.mu.Unlock()
		s.to[from] = append(s.to[from], found.Namespace+":"+found.Path)
		return api.OnResolveResult{}, nil
	})
}

// maxStars bounds the work about these exports, which is one for each name that is looked at
// in each file of a way.
const maxStars = 5_000_000

// tooMany reports whether esbuild would work for too long.
func (s *stars) tooMany() bool {
	left := maxStars
	var way []string
	var follow func(file string)
	follow = func(file string) {
		if left < 0 || slices.Contains(way, file) {
			return
		}
		way = append(way, file)
		for _, to := range s.to[file] {
			left -= (1 + s.exports[to]) * len(way)
			follow(to)
		}
		way = way[:len(way)-1]
	}
	for file := range s.to {
		follow(file)
	}
	return left < 0
}

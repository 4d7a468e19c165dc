package js

import (
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/toolroom/toolroom/internal/pattern"
)

// starExports estimates esbuild's work for `export * from` statements. esbuild follows every path
// through files that re-export one another; a dozen files can have billions of paths, and
// nothing stops it. So the files are bundled without these exports first, to count them.
type starExports struct {
	mu      sync.Mutex
	to      map[string][]string // the imports of each file with such exports
	exports map[string]int      // how many names a file may export
}

func newStars() *starExports {
	return &starExports{to: map[string][]string{}, exports: map[string]int{}}
}

// wordGap matches the text that may be between two words of a statement.
const wordGap = `(?:[^\w$"'` + "`" + `{}()*/]|/\*(?s:.*?)\*/|//[^\n\r\x{2028}\x{2029}]*)*`

// starExport matches `export * from "…"`, also in a string or comment, where the replacement does
// no harm.
var starExport = pattern.Lazy(`\bexport` + wordGap + `\*` + wordGap + `from` + wordGap + `("[^"\n]*"|'[^'\n]*')`)

// exportStatement matches the beginning of an export, with its list of names.
var exportStatement = pattern.Lazy(`\bexport\b(?:[^{}"'` + "`" + `;]*\{[^}]*\})?`)

// maxExported bounds the sum of all exports, each multiplied by the length of its file. esbuild
// reports each duplicate export, and reads the file up to it for that.
const maxExported = 300_000_000

// exportsOf returns the number of exports in a file, multiplied by its length.
func exportsOf(text string) int {
	exports := 0
	for _, one := range exportStatement().FindAllString(text, -1) {
		exports += 1 + strings.Count(one, ",")
	}
	return exports * len(text)
}

// withoutStars returns the text of a file with an import in place of each `export * from "…"`.
func (s *starExports) withoutStars(file, text string) string {
	plain := starExport().ReplaceAllString(text, "import $1")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exports[file] = strings.Count(text, "export") + strings.Count(text, ",")
	if plain != text {
		s.to[file] = []string{}
	}
	return plain
}

// recordImports records the imports of the files with star exports.
func (s *starExports) recordImports(b api.PluginBuild) {
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

// maxStars bounds the work for these exports: one for each name in each file of each path.
const maxStars = 5_000_000

// tooMany reports whether esbuild would take too long.
func (s *starExports) tooMany() bool {
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

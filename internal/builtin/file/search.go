package file

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/folder"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// SearchArgs are the arguments of file:search.
type SearchArgs struct {
	Query      string `json:"query" jsonschema:"the regular expression (RE2) or, with literal, the text to look for"`
	Path       string `json:"path,omitempty" jsonschema:"the folder or file to search"`
	Glob       string `json:"glob,omitempty" jsonschema:"a glob that selects files, such as *.go"`
	Literal    bool   `json:"literal,omitempty" jsonschema:"query is plain text"`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"treat upper and lower case as the same"`
	Context    int    `json:"context,omitempty" jsonschema:"lines to show before and after each match"`
	FilesOnly  bool   `json:"files_only,omitempty" jsonschema:"return only the files that match"`
	All        bool   `json:"all,omitempty" jsonschema:"also search what .gitignore excludes"`
	Limit      int    `json:"limit,omitempty" jsonschema:"the most matching lines to return"`
}

// SearchResult is the value of file:search.
type SearchResult struct {
	Matches  []Match  `json:"matches" jsonschema:"the matching lines"`
	Files    []string `json:"files" jsonschema:"the files that match"`
	Searched int      `json:"searched" jsonschema:"number of files that were searched"`
	More     bool     `json:"more,omitempty" jsonschema:"there are more matches than the limit"`
	Withheld int      `json:"withheld,omitempty" jsonschema:"number of files that rules of the policy forbid, which were not searched"`
}

// Match is one matching line.
type Match struct {
	Path   string   `json:"path" jsonschema:"the file, relative to the searched folder"`
	Line   int      `json:"line" jsonschema:"number of the line"`
	Text   string   `json:"text" jsonschema:"the line"`
	Before []string `json:"before,omitempty" jsonschema:"lines before"`
	After  []string `json:"after,omitempty" jsonschema:"lines after"`
}

const (
	defaultMatches = 200
	maxMatches     = 10_000
	maxSearched    = 64 << 20 // a file that is searched, in bytes
	maxShownLine   = 500
)

func (f *files) search() builtin.Tool {
	return builtin.MustTool(builtin.Spec[SearchArgs, SearchResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("file:search"), Title: "Search in files",
			Description: "Search in all files for a string, word or regular expression, like grep: find where in the source code it is called or used, and which files contain it. Returns matching lines with line numbers; binary files and what .gitignore excludes are skipped.",
			Hints:       builtin.Hints(true, false, false), Tags: []string{"file"}, Aliases: []string{"file:grep"},
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"query": `func \w+Handler`, "glob": "*.go"})}},
		},
		Arguments: map[string]builtin.Property{
			"query": {"minLength": 1}, "path": {"default": ".", "minLength": 1}, "context": {"minimum": 0, "maximum": 20},
			"limit": {"minimum": 1, "maximum": maxMatches, "default": defaultMatches},
		},
		Predict: func(_ *source.Request, in SearchArgs) []toolroom.Effect { return readEffects(orCurrentFolder(in.Path)) },
		// Which files of a folder are read is not predicted: those of rules are left out.
		Enforces: isFileRule,
		Run: func(ctx context.Context, req *source.Request, in SearchArgs) (SearchResult, []toolroom.Content, error) {
			out, err := f.find(ctx, in, policy.FileMatcher(req.Forbidden, "read"))
			return out, builtin.Text(out.text(in)), err
		},
	})
}

func (f *files) find(ctx context.Context, in SearchArgs, forbidden func(file string) bool) (SearchResult, error) {
	m, err := newMatcher(in)
	if err != nil {
		return SearchResult{}, err
	}
	limit := cmp.Or(in.Limit, defaultMatches)
	s := &search{in: in, matcher: m, out: SearchResult{Matches: []Match{}, Files: []string{}}, limit: limit, forbidden: forbidden}
	info, err := f.Stat(orCurrentFolder(in.Path))
	if err != nil {
		return s.out, err
	}
	if !info.IsDir() {
		file, err := f.Open(in.Path)
		if err != nil {
			return s.out, err
		}
		defer file.Close()
		if s.forbids(file) {
			return s.out, toolroom.Errorf(toolroom.CodeDenied, "rules of the policy forbid reading %s", in.Path)
		}
		s.out.Searched = 1
		s.add(in.Path, s.file(ctx, file, in.Path))
		return s.out, nil
	}
	tree, err := f.OpenTree(orCurrentFolder(in.Path))
	if err != nil {
		return s.out, err
	}
	defer tree.Close()
	return s.tree(ctx, tree)
}

// search is one search.
type search struct {
	in      SearchArgs
	matcher *matcher
	limit   int
	// forbidden reports whether the policy forbids reading a file, by its path without links.
	forbidden func(file string) bool
	out       SearchResult
}

// fileMatches are the matches in one file.
type fileMatches struct {
	matches  []Match
	withheld bool
}

func (s *search) forbids(file *folder.File) bool { return s.forbidden(filepath.ToSlash(file.Real)) }

// tree searches the files of a folder in parallel. It returns the matches in the order of
// paths.
func (s *search) tree(ctx context.Context, tree *folder.Tree) (SearchResult, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type job struct {
		path string
		done chan fileMatches
	}
	jobs := make(chan job, 256)
	inOrder := make(chan job, 1024)
	var workers sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			files := tree.Opener()
			defer files.Close()
			for j := range jobs {
				var in fileMatches
				if ctx.Err() != nil { // the search has ended
					j.done <- in
					continue
				}
				if file, err := files.Open(j.path); err == nil {
					if in.withheld = s.forbids(file); !in.withheld {
						in.matches = s.file(ctx, file, s.shownPath(j.path))
					}
					file.Close()
				}
				j.done <- in
			}
		})
	}
	var walkErr error
	workers.Go(func() {
		defer close(inOrder)
		defer close(jobs)
		walkErr = tree.Walk(ctx, folder.WalkOptions{Recursive: true, Pattern: s.in.Glob, All: s.in.All}, func(e folder.Entry) bool {
			if e.Type&fs.ModeType != 0 {
				return true
			}
			j := job{e.Path, make(chan fileMatches, 1)}
			select {
			case inOrder <- j:
			case <-ctx.Done():
				return false
			}
			select {
			case jobs <- j:
				return true
			case <-ctx.Done():
				close(j.done)
				return false
			}
		})
	})
	for j := range inOrder {
		in := <-j.done
		if in.withheld {
			s.out.Withheld++
			continue
		}
		s.out.Searched++
		s.add(s.shownPath(j.path), in.matches)
		if s.out.More {
			break
		}
	}
	ended := ctx.Err()
	stop()
	for j := range inOrder { // the walk is over soon
		<-j.done
	}
	workers.Wait()
	switch {
	case s.out.More:
	case ended != nil:
		return s.out, ended
	case walkErr != nil:
		return s.out, walkErr
	}
	return s.out, tree.CheckUnmoved()
}

// shownPath returns the path of a file below the searched folder in the form that other tools
// accept.
func (s *search) shownPath(below string) string {
	return path.Join(filepath.ToSlash(orCurrentFolder(s.in.Path)), below)
}

func (s *search) add(path string, matches []Match) {
	if len(matches) == 0 {
		return
	}
	if s.in.FilesOnly {
		s.out.More = len(s.out.Files) >= s.limit
		if !s.out.More {
			s.out.Files = append(s.out.Files, path)
		}
		return
	}
	room := s.limit - len(s.out.Matches)
	if len(matches) > room {
		matches, s.out.More = matches[:room], true
	}
	if len(matches) > 0 {
		s.out.Files = append(s.out.Files, path)
		s.out.Matches = append(s.out.Matches, matches...)
	}
}

// buffers hold the bytes of files while they are searched.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// file returns the matches in one file, or nil if it is binary. It stops when ctx ends.
func (s *search) file(ctx context.Context, file *folder.File, path string) []Match {
	buffer := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(buffer)
	buffer.Reset()
	buffer.Grow(int(min(file.Info.Size(), maxSearched)) + bytes.MinRead)
	if _, err := buffer.ReadFrom(io.LimitReader(file, maxSearched)); err != nil {
		return nil
	}
	text := buffer.Bytes()
	if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return nil
	}
	var matches []Match
	line, counted := 1, 0
	for at := 0; at < len(text) && ctx.Err() == nil; {
		from := s.matcher.next(ctx, text[at:])
		if from < 0 {
			break
		}
		from += at
		start := bytes.LastIndexByte(text[:from], '\n') + 1
		end := from + bytes.IndexByte(text[from:], '\n')
		if end < from {
			end = len(text)
		}
		at = end + 1
		if !s.matcher.line(ctx, text[start:end]) {
			continue
		}
		line += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		m := Match{Path: path, Line: line, Text: shownLine(text[start:end])}
		if s.in.Context > 0 {
			m.Before, m.After = contextLines(text, start, end, s.in.Context)
		}
		matches = append(matches, m)
		if s.in.FilesOnly || len(matches) > s.limit {
			break
		}
	}
	return matches
}

func shownLine(line []byte) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	text := string(line)
	if len(line) > maxShownLine {
		text = string(line[:maxShownLine]) + " […]"
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text
}

// contextLines returns up to n lines before and after the line from start to end.
func contextLines(text []byte, start, end, n int) (before, after []string) {
	for i := start; i > 0 && len(before) < n; {
		previous := bytes.LastIndexByte(text[:i-1], '\n') + 1
		before = append([]string{shownLine(text[previous : i-1])}, before...)
		i = previous
	}
	for i := end + 1; i < len(text) && len(after) < n; {
		next := bytes.IndexByte(text[i:], '\n')
		if next < 0 {
			next = len(text) - i
		}
		after = append(after, shownLine(text[i:i+next]))
		i += next + 1
	}
	return before, after
}

func (r SearchResult) text(in SearchArgs) string {
	var b strings.Builder
	if in.FilesOnly {
		for _, f := range r.Files {
			b.WriteString(builtin.FileName(f) + "\n")
		}
	}
	for i, m := range r.Matches {
		m.Path = builtin.FileName(m.Path)
		for j, line := range m.Before {
			fmt.Fprintf(&b, "%s-%d-%s\n", m.Path, m.Line-len(m.Before)+j, line)
		}
		fmt.Fprintf(&b, "%s:%d:%s\n", m.Path, m.Line, m.Text)
		for j, line := range m.After {
			fmt.Fprintf(&b, "%s-%d-%s\n", m.Path, m.Line+1+j, line)
		}
		if in.Context > 0 && i < len(r.Matches)-1 {
			b.WriteString("--\n")
		}
	}
	switch {
	case len(r.Files) == 0:
		fmt.Fprintf(&b, "Nothing matches in %d files.", r.Searched)
	case r.More:
		b.WriteString("[there are more matches; narrow the query, or raise limit]\n")
	}
	if r.Withheld > 0 {
		fmt.Fprintf(&b, "\n[rules of the policy forbid %d of the files, which were not searched]\n", r.Withheld)
	}
	return b.String()
}

// matcher finds lines. It first searches for a text that every match contains, and runs the
// regular expression only where it is.
type matcher struct {
	re      *regexp.Regexp // nil if only
	literal []byte         // nil if there is no such text
	only    bool           // the literal is the whole query
}

func newMatcher(in SearchArgs) (*matcher, error) {
	if in.Literal && !in.IgnoreCase {
		return &matcher{literal: []byte(in.Query), only: true}, nil
	}
	pattern := in.Query
	if in.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	m := &matcher{}
	if !in.IgnoreCase {
		if parsed, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			text := requiredLiteral(parsed.Simplify())
			m.literal = []byte(text)
			m.only = parsed.Op == syntax.OpLiteral && text == pattern
		}
	}
	if m.only {
		return m, nil // a text of megabytes would take hundreds of megabytes to compile
	}
	flags := "(?m"
	if in.IgnoreCase {
		flags += "i"
	}
	var err error
	if m.re, err = compileWithinLines(flags + ":" + pattern + ")"); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "query is not a regular expression of RE2: %w", err).
			WithHint("set literal=true to look for the text as it stands")
	}
	if len(m.literal) == 0 {
		m.literal = nil
	}
	return m, nil
}

// compileWithinLines compiles an expression so that no match extends beyond a line. Otherwise
// the search would look for a match that spans lines again from each of them.
func compileWithinLines(pattern string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	stayInLine(parsed)
	return regexp.Compile(parsed.String())
}

// stayInLine removes the line end from everything that an expression can match.
func stayInLine(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpAnyChar:
		re.Op = syntax.OpAnyCharNotNL
	case syntax.OpBeginText:
		re.Op = syntax.OpBeginLine
	case syntax.OpEndText:
		re.Op = syntax.OpEndLine
	case syntax.OpCharClass:
		var without []rune
		for i := 0; i < len(re.Rune); i += 2 {
			low, high := re.Rune[i], re.Rune[i+1]
			if low > '\n' || high < '\n' {
				without = append(without, low, high)
				continue
			}
			if low < '\n' {
				without = append(without, low, '\n'-1)
			}
			if high > '\n' {
				without = append(without, '\n'+1, high)
			}
		}
		re.Rune = without
		if without == nil {
			re.Op = syntax.OpNoMatch
		}
	}
	for _, sub := range re.Sub {
		stayInLine(sub)
	}
}

// requiredLiteral returns the longest literal text that every match contains.
func requiredLiteral(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return ""
		}
		return string(re.Rune)
	case syntax.OpCapture, syntax.OpPlus:
		return requiredLiteral(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requiredLiteral(re.Sub[0])
		}
	case syntax.OpConcat:
		best := ""
		for _, sub := range re.Sub {
			if text := requiredLiteral(sub); len(text) > len(best) {
				best = text
			}
		}
		return best
	}
	return ""
}

// next returns an index in the next line that may match, or -1 if there is none.
func (m *matcher) next(ctx context.Context, text []byte) int {
	if m.literal != nil {
		return bytes.Index(text, m.literal)
	}
	return m.find(ctx, text)
}

// line reports whether a line matches.
func (m *matcher) line(ctx context.Context, line []byte) bool {
	return m.only || m.find(ctx, line) >= 0
}

// The regular expression searches a text in pieces, whose sizes are in bytes, because a search
// cannot be interrupted and may take seconds. A piece ends with a line. A piece longer than
// maxPiece, which has a very long line, is read rune by rune, which is slower but can be
// interrupted.
const (
	minPiece = 64 << 10
	maxPiece = 1 << 20
)

// find returns where the first match of the regular expression begins, or -1. It stops when ctx
// ends.
func (m *matcher) find(ctx context.Context, text []byte) int {
	for at := 0; ctx.Err() == nil; {
		end, next := len(text), len(text)
		if end-at > minPiece {
			if n := bytes.IndexByte(text[at+minPiece-1:], '\n'); n >= 0 {
				end = at + minPiece - 1 + n
				next = end + 1
			}
		}
		var found []int
		if end-at <= maxPiece {
			found = m.re.FindIndex(text[at:end])
		} else {
			found = m.re.FindReaderIndex(&cancellableRunes{Reader: bytes.NewReader(text[at:end]), ended: ctx.Err})
		}
		if ctx.Err() != nil {
			break
		}
		if found != nil {
			return at + found[0]
		}
		if at = next; at >= len(text) {
			break
		}
	}
	return -1
}

// cancellableRunes reads the runes of a text. It ends early if ended returns an error.
type cancellableRunes struct {
	*bytes.Reader
	ended func() error
	read  int
}

func (r *cancellableRunes) ReadRune() (rune, int, error) {
	if r.read++; r.read%minPiece == 0 && r.ended() != nil {
		return 0, 0, io.EOF
	}
	return r.Reader.ReadRune()
}

package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
)

const (
	maxPattern = 1000 // bytes of a regular expression
	maxContext = 50   // lines around a match

	// maxSearch bounds the time of a search: a regular expression of the allowed length can
	// take a core for minutes on a text of some megabytes.
	maxSearch = 20 * time.Second

	// maxShownLine is the maximum length of a shown line, in bytes. Of a longer line, each
	// match is shown with the text around it, of which leadBytes precede it.
	maxShownLine = 1000
	leadBytes    = 200
)

// readGrep fills in the page of matching lines. Its lines have the form
//
//	LINE:BYTE:text of a match
//	LINE-BYTE-text of the context
//
// where BYTE is the offset of the text in the artifact. Like grep -nb, it writes -- between
// lines that are not adjacent.
func readGrep(ctx context.Context, page *Page, r io.Reader, opts ReadOptions) error {
	if len(opts.Grep) > maxPattern {
		return invalid(fmt.Sprintf("the regular expression is longer than %d bytes", maxPattern), "search for a part of it")
	}
	pattern, err := regexp.Compile(opts.Grep)
	if err != nil {
		return invalid(fmt.Sprintf("grep: %v", err), "write a regular expression in RE2 syntax; \\Q…\\E takes text as it is")
	}
	next, err := regexp.Compile("(?s:.)(?:" + opts.Grep + ")")
	if err != nil {
		return invalid(fmt.Sprintf("grep: %v", err), "search for a simpler expression")
	}
	g := &grep{page: page, pattern: pattern, next: next, opts: opts}
	late := &toolroom.Error{Code: toolroom.CodeResourceLimit, Message: fmt.Sprintf("the search took longer than %s", opts.search), Hint: "search for a simpler expression"}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.search, late)
	defer cancel()
	if err := g.search(ctx, r); err != nil {
		if context.Cause(ctx) == error(late) {
			return late
		}
		return fmt.Errorf("read artifact %s: %w", page.Artifact.Handle, err)
	}
	page.Text = strings.ToValidUTF8(g.out.String(), "\uFFFD")
	return nil
}

type grep struct {
	page    *Page
	pattern *regexp.Regexp
	next    *regexp.Regexp // any character, and then the pattern
	opts    ReadOptions

	out    strings.Builder
	last   int64     // number of the line shown last
	before []excerpt // lines that are context if a match follows
	after  int       // how many lines are still context of the last match
}

// excerpt is a line as it is shown.
type excerpt struct {
	number int64
	offset int64
	text   string
	match  bool
}

func (g *grep) search(ctx context.Context, r io.Reader) error {
	pieces := newPieces(r)
	for {
		p, err := pieces.next()
		if errors.Is(err, io.EOF) {
			if g.opts.Offset > pieces.offset {
				return beyondEnd(g.page, pieces.offset)
			}
			return nil
		}
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if more, err := g.addPiece(ctx, p); err != nil || !more {
			return err
		}
	}
}

// addPiece adds the matches and the context in a piece to the page, and reports whether there
// is room for more. It must also be called for pieces before the requested offset, because a
// page may begin within the context of a match before it.
func (g *grep) addPiece(ctx context.Context, p piece) (more bool, err error) {
	found, matched, err := g.matchExcerpts(ctx, p)
	switch {
	case err != nil:
		return false, err
	case matched:
		show := append(g.before, found...)
		g.before = nil
		g.after = g.opts.Context
		return g.show(show...), nil
	case p.first && g.after > 0:
		g.after--
		return g.show(p.contextExcerpt()), nil
	case p.first && g.opts.Context > 0:
		if len(g.before) == g.opts.Context {
			g.before = g.before[1:]
		}
		g.before = append(g.before, p.contextExcerpt())
	}
	return true, nil
}

// matchExcerpts returns the excerpts that show the matches in a piece.
func (g *grep) matchExcerpts(ctx context.Context, p piece) (found []excerpt, matched bool, err error) {
	if p.first && len(p.text) <= maxShownLine {
		if !g.pattern.Match(p.text) {
			return nil, false, nil
		}
		return []excerpt{p.excerpt(0, len(p.text), true)}, true, nil
	}
	begin := int(max(0, g.opts.Offset-p.offset)) // of what is not shown yet
	for at := range g.allMatches(ctx, p.text) {
		if at[0] >= p.own {
			break
		}
		matched = true
		if at[0] < begin {
			continue
		}
		from := runeStart(p.text, max(begin, at[0]-leadBytes))
		begin = runeStart(p.text, min(from+maxShownLine, len(p.text)))
		found = append(found, p.excerpt(from, begin, true))
	}
	return found, matched, ctx.Err()
}

// allMatches yields the matches that FindAllIndex returns, until ctx ends. FindAllIndex itself
// may take an hour for one piece, because it may scan the rest of the piece after each match.
func (g *grep) allMatches(ctx context.Context, text []byte) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		end := -1 // of the last match
		for at, from := g.pattern.FindIndex(text), 0; at != nil && ctx.Err() == nil; {
			if (at[1] > at[0] || at[0] != end) && !yield(at) {
				return
			}
			end = at[1]
			if from < at[1] {
				from = at[1]
			} else { // an empty match where the search began
				_, size := utf8.DecodeRune(text[from:])
				from += max(1, size)
			}
			if from > len(text) {
				return
			}
			_, size := utf8.DecodeLastRune(text[:from]) // what \b and ^ look at
			before := from - size
			if at = g.next.FindIndex(text[before:]); at != nil {
				_, size = utf8.DecodeRune(text[before+at[0]:])
				at = []int{before + at[0] + size, before + at[1]}
			}
		}
	}
}

// show writes excerpts until the page is full, and reports whether there is room for more.
func (g *grep) show(excerpts ...excerpt) bool {
	for _, e := range excerpts {
		if e.offset < g.opts.Offset {
			continue
		}
		mark := '-'
		if e.match {
			mark = ':'
		}
		line := fmt.Sprintf("%d%c%d%c%s\n", e.number, mark, e.offset, mark, e.text)
		if g.opts.Context > 0 && g.last > 0 && e.number > g.last+1 {
			line = "--\n" + line
		}
		if g.out.Len() > 0 && int64(g.out.Len()+len(line)) > g.opts.Limit {
			g.page.Next = e.offset
			return false
		}
		g.out.WriteString(line)
		g.last = e.number
		if e.match {
			g.page.Matches++
		}
	}
	return true
}

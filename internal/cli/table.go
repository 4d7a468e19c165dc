package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/internal/visible"
)

// table prints rows under headers, with aligned columns. On a terminal it fits the width:
// the widest columns get narrower, and their cells go on in the next line. If that leaves the
// last column too narrow to read, its cells have lines of their own.
func (s *screen) table(headers []string, rows [][]string) error {
	widths := make([]int, len(headers))
	for _, row := range append([][]string{headers}, rows...) {
		for i, cell := range row {
			row[i] = oneLine(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	if s.width() > 0 && !s.wide {
		headers, rows, widths = withoutEmpty(headers, rows, widths)
	}
	words := wordWidths(headers, rows)
	last := len(headers) - 1
	below := false // the last column has lines of its own
	if room := s.width(); room > 0 && !s.wide {
		below = tooNarrow(headers, widths, room)
		columns := widths
		if below {
			columns = widths[:last]
			widths[last] = room - columnGap
		}
		shrink(columns, words, room-(len(columns)-1)*columnGap, func(i int) bool { return i == 0 && columns[i] <= shortColumn || isID(headers[i]) })
	} else {
		widths[last] = 0 // no padding, no wrapping
	}
	var b strings.Builder
	line := func(cells []string, style string) {
		if text := cells[last]; below {
			defer func() {
				for _, part := range wrap(text, widths[last]) {
					if part != "" {
						b.WriteString(strings.Repeat(" ", columnGap) + s.paint(cmp.Or(style, s.styleOf(text)), part) + "\n")
					}
				}
			}()
			cells = cells[:last]
		}
		parts, most := make([][]string, len(cells)), 1
		for i, cell := range cells {
			parts[i] = wrap(cell, widths[i])
			most = max(most, len(parts[i]))
		}
		for n := range most {
			var text strings.Builder
			gap := 0
			for i := range cells {
				part := ""
				if n < len(parts[i]) {
					part = parts[i][n]
				}
				if part == "" {
					gap += widths[i] + columnGap
					continue
				}
				text.WriteString(strings.Repeat(" ", gap) + s.paint(cmp.Or(style, s.styleOf(cells[i])), part))
				gap = widths[i] - utf8.RuneCountInString(part) + columnGap
			}
			b.WriteString(text.String() + "\n")
		}
	}
	line(headers, bold)
	for _, row := range rows {
		line(row, "")
	}
	s.progress("")
	_, err := io.WriteString(s.out, b.String())
	return err
}

// tooNarrow reports whether the last column, which has texts, would get too little room.
func tooNarrow(headers []string, widths []int, room int) bool {
	last := len(widths) - 1
	if last < 2 || headers[last] == "" || isID(headers[last]) {
		return false
	}
	for _, w := range widths[:last] {
		room -= w + columnGap
	}
	return room < min(widths[last], readable)
}

// isID reports whether a column has ids, which people copy: they are not wrapped.
func isID(header string) bool {
	return slices.Contains([]string{"ID", "CALL", "RUN", "TOOL", "HANDLE", "APPROVAL", "ELEVATION", "RULE ID", "SESSION", "SOURCE"}, header)
}

// withoutEmpty removes the columns that are empty in all rows.
func withoutEmpty(headers []string, rows [][]string, widths []int) ([]string, [][]string, []int) {
	var kept []int
	for i := range headers {
		if len(rows) == 0 || slices.ContainsFunc(rows, func(row []string) bool { return row[i] != "" }) {
			kept = append(kept, i)
		}
	}
	pick := func(cells []string) []string {
		out := make([]string, len(kept))
		for n, i := range kept {
			out[n] = cells[i]
		}
		return out
	}
	fewer := make([][]string, len(rows))
	for i, row := range rows {
		fewer[i] = pick(row)
	}
	narrow := make([]int, len(kept))
	for n, i := range kept {
		narrow[n] = widths[i]
	}
	return pick(headers), fewer, narrow
}

// wordWidths returns the width of the longest word of each column that shrink should not break,
// such as a state. It is 0 for columns of ids.
func wordWidths(headers []string, rows [][]string) []int {
	words := make([]int, len(headers))
	for _, row := range append([][]string{headers}, rows...) {
		for i, cell := range row {
			for _, word := range strings.Fields(cell) {
				if n := utf8.RuneCountInString(word); n <= longWord && !isID(headers[i]) {
					words[i] = max(words[i], n)
				}
			}
		}
	}
	return words
}

// shrink makes the widest columns narrower until all fit into room, but none narrower than its
// words. Fixed columns keep their width, unless they would take most of the room.
func shrink(widths, words []int, room int, fixed func(i int) bool) {
	taken, needed := 0, 0
	for i, w := range widths {
		if fixed(i) {
			taken += w
			needed += w
		} else {
			needed += min(w, max(words[i], tightColumn))
		}
	}
	least := tightColumn
	if taken > room*3/4 || needed > room {
		fixed, least = func(int) bool { return false }, minColumn
	}
	for {
		total, widest := 0, -1
		for i, w := range widths {
			total += w
			if !fixed(i) && w > max(words[i], least) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if total <= room || widest < 0 {
			return
		}
		widths[widest]--
	}
}

// wrap breaks text into lines of at most width runes, at spaces or after punctuation where it
// can; a width of 0 is no limit.
func wrap(text string, width int) []string {
	runes := []rune(text)
	if width == 0 || len(runes) <= width {
		return []string{text}
	}
	var lines []string
	for len(runes) > width {
		end := breakIndex(runes, width)
		lines = append(lines, strings.TrimRight(string(runes[:end]), " "))
		runes = []rune(strings.TrimLeft(string(runes[end:]), " "))
	}
	return append(lines, string(runes))
}

// wrapProse wraps each line of a text between words. It indents the continuation of a line that
// has columns. It does not wrap indented lines, commands and lines with a word that is too long,
// because people may copy them.
func wrapProse(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "toolroom ") || slices.ContainsFunc(strings.Fields(line), func(word string) bool { return utf8.RuneCountInString(word) > width }) {
			out = append(out, line)
			continue
		}
		hang := ""
		if strings.Contains(line, "  ") && utf8.RuneCountInString(line) > width {
			hang = "    "
		}
		out = append(out, strings.Join(wrap(line, width-len(hang)), "\n"+hang))
	}
	return strings.Join(out, "\n")
}

// breakIndex returns the index at which to break a line of at most width runes.
func breakIndex(runes []rune, width int) int {
	for i := width; i > width/2; i-- {
		if runes[i] == ' ' {
			return i
		}
	}
	for i := width; i > width/2; i-- {
		if strings.ContainsRune("+/,;:_-", runes[i-1]) {
			return i
		}
	}
	return width
}

// textWidth is the width of indented text, or 0 for no limit.
func (s *screen) textWidth() int { return max(0, s.width()-columnGap) }

const (
	columnGap = 2
	// shortColumn is the width of a first column that is not wrapped.
	shortColumn = 16
	// readable is the least width of a last column whose texts are longer.
	readable  = 24
	minColumn = 8
	// longWord is the width of the longest word that a narrow column does not break.
	longWord = 10
	// tightColumn is the least width of a column beside ids that leave little room.
	tightColumn = 5

	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
)

// styleOf returns the colour of a cell that is a state.
func (s *screen) styleOf(cell string) string {
	switch cell {
	case "ok", "ready", "approved", "valid", "trusted", "allow":
		return green
	case "error", "fail", "FAIL", "broken", "failing", "denied", "declined", "timeout", "revoked", "changed", "deny":
		return red
	case "warn", "waiting", "pending", "backing off", "waiting for authorisation", "expired", "cancelled", "confirm":
		return yellow
	}
	return ""
}

func (s *screen) paint(style, text string) string {
	if !s.color || style == "" {
		return text
	}
	return style + text + "\x1b[0m"
}

// fields prints names and values, one per line; it omits empty values.
func (s *screen) fields(pairs ...string) error {
	s.progress("")
	_, err := io.WriteString(s.out, s.fieldsText(pairs))
	return err
}

// pagedFields is like fields, for long values: on a terminal it stops after each screenful.
func (s *screen) pagedFields(ctx context.Context, pairs ...string) error {
	if s.outTerminal && s.interactive() {
		return s.pageVisible(ctx, s.fieldsText(pairs))
	}
	return s.fields(pairs...)
}

func (s *screen) fieldsText(pairs []string) string {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		name := fmt.Sprintf("%-*s", width+columnGap, pairs[i])
		value := strings.TrimRight(visible.Text(pairs[i+1]), "\n")
		if room := s.width() - width - columnGap; room >= readable {
			value = wrapProse(value, room)
		}
		value = strings.ReplaceAll(value, "\n", "\n"+strings.Repeat(" ", width+columnGap))
		b.WriteString(s.paint(bold, name) + value + "\n")
	}
	return b.String()
}

// formatTime formats a time in the local zone.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// when formats a time for a table: on a terminal without today's date.
func (s *screen) when(t time.Time) string {
	if now := time.Now(); s.outTerminal && !s.wide && !t.IsZero() && now.Format(time.DateOnly) == t.Local().Format(time.DateOnly) {
		return t.Local().Format(time.TimeOnly)
	}
	return formatTime(t)
}

// formatDuration formats a duration.
func formatDuration(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// formatSize formats a number of bytes.
func formatSize(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, units := float64(n), "KMGTPE"
	for i := range units {
		if value /= unit; value < unit || i == len(units)-1 {
			return fmt.Sprintf("%.1f %ciB", value, units[i])
		}
	}
	return ""
}

// paging are the flags by which a list is paged, as over HTTP.
type paging struct{ api.Paging }

// flags adds the flags. limit is the default size of a page.
func (p *paging) flags(c *cobra.Command, limit int) {
	c.Flags().StringVar(&p.Cursor, "cursor", "", "cursor of the page, which the previous page prints")
	c.Flags().IntVar(&p.Limit, "limit", limit, "size of a page, at most 1000")
}

// pageOf returns a page of a list, and says how to get the next one.
func pageOf[T any](a *cli, p *paging, list []T, id func(T) string) ([]T, error) {
	if p.Limit < 1 || p.Limit > api.MaxPage {
		return nil, usage("--limit 100", "--limit must be between 1 and %d", api.MaxPage)
	}
	list, next, err := api.Page(list, p.Paging, id)
	if err != nil {
		return nil, err
	}
	if next != "" {
		a.screen.say("for more add --cursor %s", next)
	}
	return list, nil
}

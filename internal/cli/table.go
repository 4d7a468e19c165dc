package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom/internal/visible"
)

// table prints rows under headers, with aligned columns. On a terminal it truncates the
// last column to the remaining width.
func (s *screen) table(headers []string, rows [][]string) error {
	widths := make([]int, len(headers))
	for i, header := range headers {
		widths[i] = utf8.RuneCountInString(header)
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	last := len(headers) - 1
	room := s.width()
	if room > 0 {
		for _, w := range widths[:last] {
			room -= w + columnGap
		}
		room = max(room, minLastColumn)
	}
	var b strings.Builder
	line := func(cells []string, style string) {
		for i, cell := range cells {
			if i == last {
				cell = fit(cell, room)
			} else {
				cell += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+columnGap)
			}
			b.WriteString(s.paint(style, cell))
		}
		b.WriteByte('\n')
	}
	line(headers, bold)
	for _, row := range rows {
		line(row, "")
	}
	s.progress("")
	_, err := io.WriteString(s.out, b.String())
	return err
}

const (
	columnGap     = 2
	minLastColumn = 20

	bold = "\x1b[1m"
	dim  = "\x1b[2m"
)

func (s *screen) paint(style, text string) string {
	if !s.color || style == "" {
		return text
	}
	return style + text + "\x1b[0m"
}

// fields prints names and values, one per line; it omits empty values.
func (s *screen) fields(pairs ...string) error {
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
		value = strings.ReplaceAll(value, "\n", "\n"+strings.Repeat(" ", width+columnGap))
		b.WriteString(s.paint(bold, name) + value + "\n")
	}
	_, err := io.WriteString(s.out, b.String())
	return err
}

// when formats a time in the local zone.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// took formats a duration.
func took(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Microsecond).String()
	}
}

// size formats a number of bytes.
func size(n int64) string {
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

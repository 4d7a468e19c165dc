package file

import (
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// apply applies the hunks to a text. It searches for each hunk near its line, first exactly and
// then ignoring white space at the ends of lines. notes lists the hunks that did not fit
// exactly.
func (p *filePatch) apply(text string) (result string, notes []string, err error) {
	lines, end, crlf := splitLines(text)
	if p.created {
		lines, end = nil, true
	}
	var out []string
	next, shift := 0, 0
	for i := range p.hunks {
		h := &p.hunks[i]
		old, fresh := h.oldAndNew()
		at, loose, err := p.find(h, i, lines, old, next, shift)
		if err != nil {
			return "", nil, err
		}
		if h.at > 0 {
			if moved := at - (h.at - 1); moved != shift && len(old) > 0 {
				notes = append(notes, fmt.Sprintf("hunk %d of %s fits %+d lines from where it says", i+1, p.path, moved))
				shift = moved
			}
		}
		if loose {
			notes = append(notes, fmt.Sprintf("hunk %d of %s fits except for white space at the ends of lines", i+1, p.path))
			h.keepContext(fresh, lines[at:at+len(old)])
		}
		out = append(out, lines[next:at]...)
		out = append(out, fresh...)
		next = at + len(old)
		if next == len(lines) && len(fresh) > 0 && h.noEnd {
			end = false
		} else if next == len(lines) && len(fresh) > 0 && len(lines) == 0 {
			end = true
		}
	}
	out = append(out, lines[next:]...)
	lineEnd := "\n"
	if crlf {
		lineEnd = "\r\n"
	}
	result = strings.Join(out, lineEnd)
	if end && len(out) > 0 {
		result += lineEnd
	}
	return result, notes, nil
}

// splitLines splits a text into lines. end reports whether the last line has a line end, and
// crlf whether lines end with CRLF.
func splitLines(text string) (lines []string, end, crlf bool) {
	if text == "" {
		return nil, true, false
	}
	// A file with mixed line ends keeps them as parts of its lines.
	if n := strings.Count(text, "\r\n"); n > 0 && n == strings.Count(text, "\n") {
		crlf = true
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	text, end = strings.CutSuffix(text, "\n")
	return strings.Split(text, "\n"), end, crlf
}

// oldAndNew returns the lines of a hunk before and after the change.
func (h *hunk) oldAndNew() (old, fresh []string) {
	for _, line := range h.lines {
		if line[0] != '+' {
			old = append(old, line[1:])
		}
		if line[0] != '-' {
			fresh = append(fresh, line[1:])
		}
	}
	return old, fresh
}

// keepContext replaces the unchanged lines of the hunk by those of the file, which may differ
// in white space.
func (h *hunk) keepContext(fresh, have []string) {
	i, j := 0, 0
	for _, line := range h.lines {
		switch line[0] {
		case '-':
			j++
		case '+':
			i++
		default:
			fresh[i] = have[j]
			i++
			j++
		}
	}
}

// find returns the index of the line where a hunk fits, at from or later.
func (p *filePatch) find(h *hunk, number int, lines, old []string, from, shift int) (at int, loose bool, err error) {
	if h.anchor != "" {
		found := false
		for i := from; i < len(lines); i++ {
			if strings.TrimSpace(lines[i]) == h.anchor || strings.Contains(lines[i], h.anchor) {
				from, found = i, true
				break
			}
		}
		if !found {
			return 0, false, p.misfitError(number, lines, []string{h.anchor})
		}
	}
	near := from
	if h.at > 0 {
		near = max(from, h.at-1+shift)
	}
	if len(old) == 0 {
		switch {
		case h.anchor != "":
			return from + 1, false, nil
		case h.at > 0:
			return min(near, len(lines)), false, nil
		default:
			return len(lines), false, nil
		}
	}
	for _, loose := range []bool{false, true} {
		if at := nearestFit(lines, old, from, near, loose); at >= 0 {
			return at, loose, nil
		}
	}
	return 0, false, p.misfitError(number, lines, old)
}

func nearestFit(lines, old []string, from, near int, loose bool) int {
	best := -1
	for at := from; at+len(old) <= len(lines); at++ {
		if !fitsAt(lines[at:at+len(old)], old, loose) {
			continue
		}
		if best < 0 || abs(at-near) < abs(best-near) {
			best = at
		}
		if at >= near {
			break
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }

func fitsAt(lines, old []string, loose bool) bool {
	for i := range old {
		a, b := lines[i], old[i]
		if loose {
			a, b = strings.TrimRight(a, " \t\r"), strings.TrimRight(b, " \t\r")
		}
		if a != b {
			return false
		}
	}
	return true
}

func (p *filePatch) misfitError(number int, lines, old []string) error {
	e := toolroom.Errorf(toolroom.CodeConflict, "hunk %d of %s does not fit the file", number+1, p.path)
	if line, near := nearestLines(strings.Join(lines, "\n"), strings.Join(old, "\n")); near != "" {
		e.Message += fmt.Sprintf("; the nearest text is at line %d:\n%s", line, near)
		e.Details = map[string]any{"nearest_line": line, "nearest_text": near}
	}
	return e.WithHint("nothing was changed; read the file again and make the patch anew: file:read path=%q", p.path)
}

package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// history is what was typed at the REPL, oldest first, in a file that only its
// user reads: programs may hold what is nobody else's business. It is the
// term.History of the editor; a file that cannot be written costs the history
// and not the REPL.
type history struct {
	path  string
	lines []string
}

// Lines beyond the newest are given up, and so are lines that are no line a
// person types.
const (
	historyLines = 1000
	historyLine  = 4 << 10
)

// openHistory reads a history; one that is not there is empty.
func openHistory(path string) (*history, error) {
	h := &history{path: path}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	for line := range strings.Lines(string(data)) {
		h.keep(strings.TrimSuffix(line, "\n"))
	}
	return h, err
}

// Add takes a line.
func (h *history) Add(line string) { h.keep(line) }

func (h *history) keep(line string) {
	if strings.TrimSpace(line) == "" || len(line) > historyLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(len(h.lines)-historyLines, 0):]
}

// Len is how many lines there are.
func (h *history) Len() int { return len(h.lines) }

// At is a line, 0 the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save writes the history, readable by its user alone.
func (h *history) save() error {
	return atomicfile.Write(h.path, []byte(strings.Join(append(h.lines, ""), "\n")), 0o600)
}

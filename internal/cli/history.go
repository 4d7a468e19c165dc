package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// history is the lines typed at the REPL, oldest first, in a file that only its user can
// read, because programs may contain private data. It implements the term.History of the
// editor. If the file cannot be written, the history is lost, but the REPL works.
type history struct {
	path  string
	lines []string
}

// Lines beyond the newest are dropped, and so are lines that are too long to have been
// typed.
const (
	historyLines = 1000
	historyLine  = 4 << 10
)

// openHistory reads a history; a missing file is empty.
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

// Add appends a line.
func (h *history) Add(line string) { h.keep(line) }

func (h *history) keep(line string) {
	if strings.TrimSpace(line) == "" || len(line) > historyLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(len(h.lines)-historyLines, 0):]
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save writes the history to a file that only the user can read.
func (h *history) save() error {
	return atomicfile.Write(h.path, []byte(strings.Join(append(h.lines, ""), "\n")), 0o600)
}

package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/toolroom/toolroom/internal/atomicfile"
)

// history holds the lines typed at the REPL, oldest first. It is kept in a file that only its
// user can read, because programs may contain private data. It implements term.History.
type history struct {
	path  string
	lines []string
}

const (
	maxHistoryLines = 1000
	// maxHistoryLine is the maximum length of a line in bytes. A longer one was not typed.
	maxHistoryLine = 4 << 10
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
	if strings.TrimSpace(line) == "" || len(line) > maxHistoryLine || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	h.lines = h.lines[max(len(h.lines)-maxHistoryLines, 0):]
}

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }

// At returns a line; 0 is the newest.
func (h *history) At(i int) string { return h.lines[len(h.lines)-1-i] }

// save writes the history to a file that only the user can read.
func (h *history) save() error {
	return atomicfile.Write(h.path, []byte(strings.Join(append(h.lines, ""), "\n")), 0o600)
}

package receipt

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Lines writes each receipt as one line of JSON. Its methods are safe for concurrent
// use, and a nil Lines writes nothing.
type Lines struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	out     io.Writer
	file    *os.File // out, when it is ours to close
	failing bool
	closed  bool
}

// LinesTo returns a Lines that writes to out. Close does not close out.
func LinesTo(out io.Writer, log *slog.Logger) *Lines { return &Lines{out: out, log: log} }

// OpenLines returns a Lines that appends to a file. It creates the file, readable by this
// user only, if it does not exist.
func OpenLines(path string, log *slog.Logger) (*Lines, error) {
	l := &Lines{path: path, log: log}
	return l, l.Reopen()
}

// Reopen opens the file again after another program has moved it. If that fails,
// lines still go to the old file.
func (l *Lines) Reopen() error {
	if l == nil || l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return f.Close()
	}
	old := l.file
	l.out, l.file = f, f
	l.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write writes receipts, each with a single write.
func (l *Lines) Write(group []*toolroom.Receipt) {
	if l == nil {
		return
	}
	var failed error
	for _, r := range group {
		line, err := jsonx.Marshal(r)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		l.mu.Lock()
		_, err = l.out.Write(append(line, '\n'))
		l.mu.Unlock()
		failed = errors.Join(failed, err)
	}
	l.mu.Lock()
	tell := failed != nil && !l.failing
	l.failing = failed != nil
	l.mu.Unlock()
	if tell { // once, not for each group
		l.log.Error("failed to write receipts to the log", "error", failed)
	}
}

// Close closes the file. A later Reopen does nothing.
func (l *Lines) Close() error {
	if l == nil || l.path == "" { // out is not ours, and a write to it may wait for its reader
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

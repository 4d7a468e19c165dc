// Package linelog writes receipts as one line of JSON each, for programs that
// gather logs. The store stays the truth: a line that cannot be written is
// reported and holds up nothing.
package linelog

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"

	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/receipt"
)

// Log writes lines. Its methods are safe for concurrent use, and a nil Log
// writes nothing.
type Log struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	out     io.Writer
	file    *os.File // out, when it is ours to close
	failing bool
}

// To writes to out, which is not closed.
func To(out io.Writer, log *slog.Logger) *Log { return &Log{out: out, log: log} }

// Open appends to a file, for this user alone when it is made.
func Open(path string, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, log: log}
	return l, l.Reopen()
}

// Reopen opens the file anew, after something else has moved it away. When that
// fails, lines still go to the old one.
func (l *Log) Reopen() error {
	if l == nil || l.path == "" {
		return nil
	}
	f, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	l.mu.Lock()
	old := l.file
	l.out, l.file = f, f
	l.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Write writes receipts, each in one piece.
func (l *Log) Write(group []*receipt.Receipt) {
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
		l.log.Error("receipts are not written to the log", "error", failed)
	}
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil || l.file == nil {
		return nil
	}
	return l.file.Close()
}

package receipt

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// maxLines is how many lines a LineQueue holds.
const maxLines = 8192

// LineQueue is a writer for lines whose reader may stall, such as that of stdout, without
// delaying calls. Each write is one line. If too many lines wait, further ones are counted and
// dropped.
type LineQueue struct {
	out io.Writer
	log *slog.Logger

	mu      sync.Mutex
	lines   [][]byte
	lost    int
	writing chan struct{} // closed when nothing waits any more; nil then
	err     error         // of the last line that was written
}

// NewLineQueue returns a LineQueue that writes to out.
func NewLineQueue(out io.Writer, log *slog.Logger) *LineQueue {
	return &LineQueue{out: out, log: log}
}

// Write queues a line, which must not change afterwards. The error is that of an earlier line.
func (q *LineQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) >= maxLines {
		if q.lost++; q.lost == 1 {
			// The log may wait for the same reader.
			go q.log.Error("nobody reads the receipts that are printed; further lines are dropped until someone does", "waiting", maxLines)
		}
		return len(line), nil
	}
	q.lines = append(q.lines, line)
	if q.writing == nil {
		q.writing = make(chan struct{})
		go q.write()
	}
	return len(line), q.err
}

// write writes lines until none waits.
func (q *LineQueue) write() {
	for {
		q.mu.Lock()
		if len(q.lines) == 0 {
			lost := q.lost
			q.lost = 0
			close(q.writing)
			q.writing = nil
			q.mu.Unlock()
			if lost > 0 {
				q.log.Warn("the receipts that are printed are read again; some lines are lost, the store has all", "lost", lost)
			}
			return
		}
		line := q.lines[0]
		q.lines = q.lines[1:]
		q.mu.Unlock()
		_, err := q.out.Write(line)
		q.mu.Lock()
		q.err = err
		q.mu.Unlock()
	}
}

// Close waits until all lines are written or ctx ends. The error may be that of the last line.
func (q *LineQueue) Close(ctx context.Context) error {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	writing := q.writing
	q.mu.Unlock()
	if writing != nil {
		select {
		case <-writing:
		case <-ctx.Done():
			q.mu.Lock()
			defer q.mu.Unlock()
			return fmt.Errorf("%d receipts were not printed, because nobody reads them; the store has them: %w", q.lost+len(q.lines)+1, ctx.Err())
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

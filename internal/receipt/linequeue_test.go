package receipt

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
)

// Nobody reads stdout. Calls go on, the log says that lines are dropped, and those that wait are
// printed once someone reads.
func TestAReaderThatStallsStopsNoCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out, log bytes.Buffer
		read := make(chan struct{})
		q := NewLineQueue(writerFunc(func(p []byte) (int, error) { <-read; return out.Write(p) }), slog.New(slog.NewTextHandler(&log, nil)))
		lines := LinesTo(q, slog.New(slog.DiscardHandler))
		r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{OnStored: lines.Write})
		const calls = 3 * maxLines
		for i := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if err := r.Append(ctx, &Draft{Receipt: toolroom.Receipt{ID: strconv.Itoa(i)}}); err != nil {
				t.Fatalf("call %d: %v", i, err)
			}
			cancel()
		}
		closeRecorder(t, r)
		synctest.Wait()
		if n := strings.Count(log.String(), "nobody reads"); n != 1 {
			t.Errorf("the log tells it %d times: %s", n, &log)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := q.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed while nobody reads: %v", err)
		}
		close(read)
		if err := q.Close(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := strings.Count(out.String(), "\n"); n != maxLines+1 || !strings.Contains(log.String(), "lost="+strconv.Itoa(calls-n)) {
			t.Errorf("%d lines were printed: %s", n, &log)
		}
	})
}

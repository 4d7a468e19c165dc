package mcp

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom/mcp"
)

// TestANewConnectionDoesNotWaitLongForWhatIsWatched: callers wait for it, too. The
// server answers all but resources/subscribe.
func TestANewConnectionDoesNotWaitLongForWhatIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		theirs, ours := io.Pipe()
		out, in := io.Pipe()
		var asked atomic.Int64
		go func() {
			for lines := bufio.NewScanner(theirs); lines.Scan(); {
				line := lines.Text()
				_, id, _ := strings.Cut(line, `"id":`)
				id, _, _ = strings.Cut(id, ",")
				switch {
				case strings.Contains(line, `"resources/subscribe"`):
					asked.Add(1)
				case strings.Contains(line, `"initialize"`):
					fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"serverInfo":{"name":"slow","version":"1"}}}`+"\n", id)
				}
			}
		}()
		session, err := mcp.Connect(t.Context(), mcp.Stdio(mcp.Pipes{
			In: mcp.NewLines(out, io.Discard), Out: ours, Stop: func() { ours.Close(); in.Close() },
		}), mcp.ClientOptions{Legacy: true})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		s := New(Config{Namespace: "slow", Log: slog.New(slog.DiscardHandler)})
		defer s.Close()
		for i := range 20 {
			s.watches.set(fmt.Sprint("x:", i), true)
		}
		began := time.Now()
		s.resubscribe(t.Context(), &upstream{session: session})
		if took := time.Since(began); took != pingTimeout {
			t.Errorf("it waited %s for 20 resources, want %s in all", took, pingTimeout)
		}
		if asked.Load() == 0 {
			t.Error("the server was not asked")
		}
	})
}

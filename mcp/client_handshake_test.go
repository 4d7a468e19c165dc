package mcp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// slowly is a server on stdio that reads its first line only after a while, and
// holds a connection to the era of that.
func slowly(t *testing.T, modern bool) Transport {
	fromServer, out := io.Pipe()
	in, toServer := io.Pipe()
	stop := func() { out.Close(); in.Close() }
	go func() {
		defer stop()
		time.Sleep(2 * probeTimeout)
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
			}
			if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
				continue
			}
			switch {
			case modern && m.Method == "server/discover":
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`+"\n", m.ID)
			case modern:
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"not here"}}`+"\n", m.ID)
			case m.Method == "initialize":
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"slow","version":"1"}}}`+"\n", m.ID)
			}
		}
	}()
	return Stdio(Pipes{In: NewLines(fromServer, io.Discard), Out: toServer, Stop: stop})
}

func TestAServerThatIsSlowToStartIsSpokenToInItsOwnEra(t *testing.T) {
	t.Parallel()
	for modern, want := range map[bool]string{true: modernVersion, false: legacyVersion} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, err := Connect(t.Context(), slowly(t, modern), ClientOptions{Name: "test"})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if got := s.Server().Version; got != want {
					t.Errorf("the revision is %s, want %s", got, want)
				}
			})
		})
	}
}

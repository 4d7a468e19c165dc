package httpapi_test

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom/internal/source/httpapi"
	"github.com/toolroom/toolroom/source"
	"github.com/toolroom/toolroom/source/sourcetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toolServer speaks both forms. Its tool "slow" runs until its caller leaves.
type toolServer struct {
	*httptest.Server
	slow atomic.Int64
}

func newToolServer(t *testing.T) *toolServer {
	t.Helper()
	s := &toolServer{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /slow", s.serveSlow)
	mux.HandleFunc("POST /double", func(w http.ResponseWriter, r *http.Request) {
		var args struct{ Number json.Number }
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		n, err := args.Number.Int64()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		writeJSON(w, map[string]any{"doubled": 2 * n})
	})
	mux.HandleFunc("POST /tools/run", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Tool  string
			Input json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		switch call.Tool {
		case "echo":
			writeJSON(w, map[string]any{"tool": call.Tool, "result": call.Input, "success": true})
		case "fail":
			writeJSON(w, map[string]any{"tool": call.Tool, "result": "the disk is on fire", "success": false})
		case "slow":
			s.serveSlow(w, r)
		default:
			http.NotFound(w, r)
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func (s *toolServer) serveSlow(_ http.ResponseWriter, r *http.Request) {
	s.slow.Add(1)
	defer s.slow.Add(-1)
	// The server notices that the caller has gone only when it reads.
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func (s *toolServer) running() int { return int(s.slow.Load()) }

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// discardLog takes what a server says of clients that break off on purpose.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }

func open(t *testing.T, config httpapi.Config, options httpapi.Options) *httpapi.Source {
	t.Helper()
	s, err := httpapi.New("svc", config, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestTheFormPathKeepsTheContractOfSources(t *testing.T) {
	server := newToolServer(t)
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "svc",
		Open: func(t *testing.T) source.Source {
			return open(t, httpapi.Config{
				BaseURL: server.URL,
				Tools:   []httpapi.Tool{{Name: "double"}, {Name: "slow"}},
			}, httpapi.Options{})
		},
		Good:    sourcetest.Call{Tool: "double", Arguments: `{"number": 9007199254740993}`, Want: `{"doubled": 18014398509481986}`},
		Slow:    sourcetest.Call{Tool: "slow"},
		Running: server.running,
		Skip:    sourcetest.Skip{Failing: "in this form a service has no way to say that its tool failed but a status, which is an error"},
	})
}

func TestTheFormRunKeepsTheContractOfSources(t *testing.T) {
	server := newToolServer(t)
	sourcetest.Run(t, sourcetest.Config{
		Namespace: "svc",
		Open: func(t *testing.T) source.Source {
			return open(t, httpapi.Config{
				BaseURL: server.URL,
				Form:    httpapi.FormRun,
				Tools:   []httpapi.Tool{{Name: "echo"}, {Name: "fail"}, {Name: "slow"}},
			}, httpapi.Options{})
		},
		Good:    sourcetest.Call{Tool: "echo", Arguments: `{"big": 123456789012345678901234567890}`, Want: `{"big": 123456789012345678901234567890}`},
		Failing: sourcetest.Call{Tool: "fail", Want: `"the disk is on fire"`},
		Slow:    sourcetest.Call{Tool: "slow"},
		Running: server.running,
	})
}

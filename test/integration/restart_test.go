//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

// countingServer is a server of 2026-07-28 that counts the calls of its tools once and again by their
// argument n. At /keyed it is an HTTP service that acts once for each idempotency key.
type countingServer struct {
	*httptest.Server
	mu   sync.Mutex
	done map[string]int    // "TOOL N"
	keys map[string]string // actions by key
	seen int               // number of requests with a known key
}

func newCountingServer(t *testing.T) *countingServer {
	c := &countingServer{done: map[string]int{}, keys: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

// keyed serves the HTTP service.
func (c *countingServer) keyed(w http.ResponseWriter, r *http.Request) {
	var arguments struct {
		N string `json:"n"`
	}
	key := r.Header.Get("Idempotency-Key")
	if json.NewDecoder(r.Body).Decode(&arguments) != nil || key == "" {
		http.Error(w, "no key", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	if _, there := c.keys[key]; there {
		c.seen++
	} else {
		c.keys[key] = arguments.N
		c.done["keyed "+arguments.N]++
	}
	c.mu.Unlock()
	time.Sleep(20 * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{}`)
}

func (c *countingServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/keyed" {
		c.keyed(w, r)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Name      string `json:"name"`
			Arguments struct {
				N string `json:"n"`
			} `json:"arguments"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	result := `{}`
	switch m.Method {
	case "server/discover":
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
	case "tools/list":
		result = `{"tools":[{"name":"once","inputSchema":{"type":"object"}},{"name":"again","inputSchema":{"type":"object"},"annotations":{"idempotentHint":true}}]}`
	case "tools/call":
		c.mu.Lock()
		c.done[m.Params.Name+" "+m.Params.Arguments.N]++
		c.mu.Unlock()
		time.Sleep(20 * time.Millisecond) // so that kills hit running calls
		result = `{"content":[{"type":"text","text":"done"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// TestServerRestartedUnderLoadLosesAndDoublesNoKeyedCall kills the server during many calls.
// Each call is repeated with its key until its outcome is known.
func TestServerRestartedUnderLoadLosesAndDoublesNoKeyedCall(t *testing.T) {
	r := newRoom(t, nil)
	up := newCountingServer(t)
	r.configure(object{
		"up": object{"mcp": object{"url": up.URL}}, "everything": r.everythingSource(),
		"service": object{"http": object{"base_url": up.URL, "tools": []object{
			{"name": "keyed", "description": "once for each key", "input_schema": object{"type": "object"}, "guarantee": "keyed"},
		}}},
	})
	address := freeAddress(t)
	s := r.serveAt(address)
	url := "http://" + address + "/api/v1/call"

	var ended atomic.Bool
	var ok, unknown, repeats atomic.Int64
	settle := func(tool, n string) {
		body := encode(t, object{"tool": tool, "arguments": object{"n": n, "message": n}})
		var last *toolroom.Error
		for end := time.Now().Add(waitTimeout); time.Now().Before(end); repeats.Add(1) {
			result, err := postCall(url, tool+n, body)
			last = result.Error
			switch {
			case err != nil || result.Status == "":
				time.Sleep(20 * time.Millisecond) // the server is restarting
			case result.Status == toolroom.StatusOK:
				ok.Add(1)
				return
			case result.Error == nil:
				t.Errorf("%s %s ended with %s and no error", tool, n, result.Status)
				return
			case tool == "up:once" && (result.Error.Code == toolroom.CodeConflict || result.Effects == toolroom.EffectsUnknown):
				unknown.Add(1) // it may have acted, so it is not repeated
				return
			}
		}
		t.Errorf("%s %s was never settled: %+v", tool, n, last)
	}
	var work sync.WaitGroup
	for worker := range 24 {
		work.Go(func() {
			for i := 0; !ended.Load(); i++ {
				settle([]string{"up:once", "up:again", "everything:echo", "service:keyed"}[worker%4], fmt.Sprint(worker, "-", i))
			}
		})
	}
	kills := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGKILL}
	for _, kill := range kills {
		before := ok.Load()
		eventually(t, "calls are answered", func() bool { return ok.Load() > before+300 })
		s.stop(t, kill)
		s = r.serveAt(address)
	}
	before := ok.Load()
	eventually(t, "calls are answered after the last start", func() bool { return ok.Load() > before+300 })
	ended.Store(true)
	work.Wait()

	up.mu.Lock()
	defer up.mu.Unlock()
	doubled, keyed := 0, 0
	for call, times := range up.done {
		if strings.HasPrefix(call, "keyed ") {
			keyed++
		}
		if times > 1 && !strings.HasPrefix(call, "again ") {
			t.Errorf("%s was done %d times", call, times)
		}
		if times > 1 {
			doubled++
		}
	}
	r.upstreamPID() // one process, and none of the servers that were killed
	s.stop(t, syscall.SIGTERM)
	r.wantNoUpstream()
	t.Logf("%d kills, %d calls done, %d requests repeated, %d calls with an unknown outcome, %d idempotent ones done again; %d keyed calls, %d sent again with their key, none done twice",
		len(kills), ok.Load(), repeats.Load(), unknown.Load(), doubled, keyed, up.seen)
}

// postCall makes a call. The result is empty if the response is not a result.
func postCall(url, key, body string) (result toolroom.Result, err error) {
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return result, err
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return result, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return result, err
	}
	return result, json.Unmarshal(data, &result)
}

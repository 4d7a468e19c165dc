package approval_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// receiver is the other side: it answers with the statuses of its script, then
// with 200, and keeps what it was sent.
type receiver struct {
	mu     sync.Mutex
	script []int
	got    []*http.Request
	bodies [][]byte
	each   chan struct{}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	status := http.StatusOK
	if len(r.script) > 0 {
		status, r.script = r.script[0], r.script[1:]
	}
	r.got, r.bodies = append(r.got, req), append(r.bodies, body)
	if status/100 == 3 {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
	r.each <- struct{}{}
}

func setUp(t *testing.T, script ...int) (*receiver, *approval.Service, approval.Hook) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{script: script, each: make(chan struct{}, 100)}
	server := httptest.NewServer(r)
	t.Cleanup(func() { server.Close(); store.Close() })
	h := approval.Hook{Name: "ops", URL: server.URL + "/in", PublicURL: "https://tools.example.com/", Secret: "s3cret", Headers: map[string]string{"X-Team": "blue"}}
	return r, approval.New(store, approval.Options{}), h
}

func start(t *testing.T, approvals *approval.Service, h approval.Hook) (stop func()) {
	t.Helper()
	n := approval.NewNotifier(approval.NotifierOptions{
		Approvals: approvals, Hooks: func(context.Context) ([]approval.Hook, error) { return []approval.Hook{h}, nil },
		Poll: 5 * time.Millisecond, First: time.Millisecond, Last: 5 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func (r *receiver) wait(t *testing.T) {
	t.Helper()
	select {
	case <-r.each:
	case <-time.After(10 * time.Second):
		t.Fatal("no message came")
	}
}

func request(t *testing.T, approvals *approval.Service, digest string) *toolroom.Approval {
	t.Helper()
	a, err := approvals.Request(t.Context(), toolroom.Approval{Digest: digest, Tool: "file:write", Arguments: json.RawMessage(`{"a":1}`), Effects: []string{"writes a"}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAMessageArrivesOnceThoughTheReceiverFailsAtFirst(t *testing.T) {
	t.Parallel()
	r, approvals, h := setUp(t, 503, 429)
	asked := request(t, approvals, "one")
	stop := start(t, approvals, h)
	for range 3 {
		r.wait(t)
	}
	for { // the delivery is noted after the answer
		a, err := approvals.Get(t.Context(), asked.ID)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Notified) == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	// After a restart what has arrived is not sent again; what is new is.
	stop = start(t, approvals, h)
	defer stop()
	later := request(t, approvals, "two")
	r.wait(t)
	stop()

	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) != 4 {
		t.Fatalf("%d messages came", len(r.got))
	}
	for i, req := range r.got {
		want := asked
		if i == 3 {
			want = later
		}
		var m approval.HookMessage
		if err := json.Unmarshal(r.bodies[i], &m); err != nil {
			t.Fatal(err)
		}
		if m.Event != "approval.pending" || m.Approval.ID != want.ID || m.Approval.Effects[0] != "writes a" {
			t.Errorf("message %d is %s", i, r.bodies[i])
		}
		token, ok := strings.CutPrefix(m.Link, "https://tools.example.com/approve/")
		if a, name, err := approvals.OpenLink(t.Context(), token); !ok || err != nil || a.ID != want.ID || name != "ops" {
			t.Errorf("the link %s leads to %v, %s, %v", m.Link, a, name, err)
		}
		if req.Header.Get(approval.DeliveryHeader) != want.ID+":ops" || req.Header.Get("X-Team") != "blue" {
			t.Errorf("headers %v", req.Header)
		}
		signature := req.Header.Get(approval.SignatureHeader)
		at, err := strconv.ParseInt(strings.TrimPrefix(strings.Split(signature, ",")[0], "t="), 10, 64)
		if err != nil || signature != approval.Sign("s3cret", time.Unix(at, 0), r.bodies[i]) {
			t.Errorf("signature %q, %v", signature, err)
		}
	}
}

func TestARefusedMessageAndARedirectAreNotTriedAgain(t *testing.T) {
	t.Parallel()
	for _, status := range []int{404, 302, 307} {
		r, approvals, h := setUp(t, status)
		refused := request(t, approvals, "one")
		stop := start(t, approvals, h)
		r.wait(t)
		request(t, approvals, "two") // arrives after several looks at the first
		r.wait(t)
		stop()
		a, err := approvals.Get(t.Context(), refused.ID)
		if err != nil || len(a.Notified) != 0 {
			t.Errorf("%d: noted as arrived: %v, %v", status, a, err)
		}
		r.mu.Lock()
		if len(r.got) != 2 || r.got[1].URL.Path != "/in" {
			t.Errorf("%d: %d messages came", status, len(r.got))
		}
		r.mu.Unlock()
	}
}

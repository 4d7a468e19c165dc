package receipt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

// collector reads what it is sent as the protocol's JSON form says, and fails
// as its script says.
type collector struct {
	t      *testing.T
	mu     sync.Mutex
	script []int
	most   int64 // bytes of a request, if not 0
	calls  []string
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.script) > 0 {
		status := c.script[0]
		c.script = c.script[1:]
		w.WriteHeader(status)
		return
	}
	if c.most > 0 && r.ContentLength > c.most {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	if r.URL.Path != "/v1/logs" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Authorization") != "Bearer x" {
		c.t.Errorf("request %s %v", r.URL, r.Header)
	}
	var body struct {
		ResourceLogs []struct {
			ScopeLogs []struct {
				LogRecords []struct {
					TimeUnixNano   string
					SeverityNumber int
					Body           struct{ StringValue string }
					Attributes     []struct {
						Key   string
						Value map[string]string
					}
				}
			}
		}
	}
	text, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(text, &body); err != nil {
		c.t.Error(err)
		return
	}
	for _, record := range body.ResourceLogs[0].ScopeLogs[0].LogRecords {
		var kept toolroom.Receipt
		if err := json.Unmarshal([]byte(record.Body.StringValue), &kept); err != nil || record.TimeUnixNano != "5000000000" {
			c.t.Errorf("record %+v, %v", record, err)
		}
		if record.Attributes[0].Key != "toolroom.call" || record.Attributes[0].Value["stringValue"] != kept.ID {
			c.t.Errorf("attributes %+v", record.Attributes)
		}
		if warn := record.SeverityNumber == 13; warn != (kept.Status != toolroom.StatusOK) {
			c.t.Errorf("severity %d of %s", record.SeverityNumber, kept.Status)
		}
		c.calls = append(c.calls, kept.ID)
	}
}

func start(t *testing.T, c *collector, log io.Writer, queue int) *receipt.OTLP {
	t.Helper()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return receipt.NewOTLP(receipt.OTLPOptions{
		Endpoint: server.URL + "/", Retry: time.Millisecond, Queue: queue, Log: slog.New(slog.NewTextHandler(log, nil)),
		Headers: func(context.Context) (map[string]string, error) {
			return map[string]string{"Authorization": "Bearer x"}, nil
		},
	})
}

func receipts(ids ...string) []*toolroom.Receipt {
	var group []*toolroom.Receipt
	for _, id := range ids {
		r := &toolroom.Receipt{ID: id, Status: toolroom.StatusOK, Started: time.Unix(5, 0)}
		if id == "failed" {
			r.Status, r.Error = toolroom.StatusError, toolroom.Errorf(toolroom.CodeInternal, "it failed")
		}
		group = append(group, r)
	}
	return group
}

func TestReceiptsArriveInOrderThoughTheCollectorFailsAtFirst(t *testing.T) {
	c := &collector{t: t, script: []int{503, 429}}
	e := start(t, c, io.Discard, 0)
	e.Write(receipts("a", "failed"))
	e.Write(receipts("b"))
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.calls, " "); got != "a failed b" {
		t.Errorf("it got %q", got)
	}
}

func TestACollectorThatRefusesHoldsUpNothing(t *testing.T) {
	var log bytes.Buffer
	c := &collector{t: t, script: []int{400}}
	e := start(t, c, &log, 0)
	e.Write(receipts("a"))
	for {
		c.mu.Lock()
		left := len(c.script)
		c.mu.Unlock()
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	e.Write(receipts("b"))
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.calls, " "); got != "b" || !strings.Contains(log.String(), "400") {
		t.Errorf("it got %q, and the log says %s", got, &log)
	}
}

func TestACollectorThatIsAwayLosesWhatDoesNotFitAndSaysSo(t *testing.T) {
	var log bytes.Buffer
	away := make([]int, 1000)
	for i := range away {
		away[i] = 503
	}
	e := start(t, &collector{t: t, script: away}, &log, 1)
	e.Write(receipts("a", "b", "c", "d", "e", "f"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); err == nil {
		t.Error("Close says that all was sent")
	}
	if !strings.Contains(log.String(), "lost=") {
		t.Errorf("the log says %s", &log)
	}
}

func TestAGroupThatIsTooLargeIsSentInParts(t *testing.T) {
	var log bytes.Buffer
	c := &collector{t: t, most: 3000}
	e := start(t, c, &log, 0)
	group := receipts("a", "b", "c", "large", "d", "e", "f", "g")
	group[3].Tool = strings.Repeat("x", 4000)
	e.Write(group)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.calls, " "); got != "a b c d e f g" || !strings.Contains(log.String(), "lost=1 ") {
		t.Errorf("it got %q, and the log says %s", got, &log)
	}
}

func TestASecondCloseWaitsForTheSameEnd(t *testing.T) {
	t.Parallel()
	e := start(t, &collector{t: t}, io.Discard, 10)
	for range 2 {
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

package receipt_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

func TestLinesThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := receipt.OpenLines(dir, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a folder was opened")
	}
	path := filepath.Join(dir, "calls.log")
	l, err := receipt.OpenLines(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	// What cannot be opened again goes on where it was.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil {
		t.Error("a folder was opened")
	}
	l.Write([]*toolroom.Receipt{{ID: "a"}})
	if text, err := os.ReadFile(path + ".1"); err != nil || !strings.Contains(string(text), `"a"`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file was open: %v", err)
	}
	var none *receipt.Lines
	none.Write([]*toolroom.Receipt{{ID: "a"}})
	if err := errors.Join(none.Reopen(), none.Close()); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	l = receipt.LinesTo(&out, slog.New(slog.DiscardHandler))
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
}

func TestAReceiptThatHasNoFormHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	var out, told bytes.Buffer
	l := receipt.LinesTo(&out, slog.New(slog.NewTextHandler(&told, nil)))
	wrong := &toolroom.Receipt{ID: "wrong", Arguments: json.RawMessage(`{"broken`)}
	for range 2 {
		l.Write([]*toolroom.Receipt{wrong, {ID: "a"}})
	}
	l.Write([]*toolroom.Receipt{{ID: "b"}})
	l.Write([]*toolroom.Receipt{wrong})
	if n := strings.Count(out.String(), "\n"); n != 3 || strings.Contains(out.String(), "wrong") {
		t.Errorf("%s", &out)
	}
	// Once when it begins, and once when it begins again.
	if n := strings.Count(told.String(), "failed to write"); n != 2 {
		t.Errorf("told %d times: %s", n, &told)
	}
}

// asked sends receipts to a handler until they are all sent, and returns what was logged.
func send(t *testing.T, o receipt.OTLPOptions, handler http.HandlerFunc, group []*toolroom.Receipt) string {
	t.Helper()
	var log bytes.Buffer
	if o.Endpoint == "" {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		o.Endpoint = server.URL
	}
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	if o.Retry == 0 {
		o.Retry = time.Microsecond
	}
	e := receipt.NewOTLP(o)
	e.Write(group)
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return log.String()
}

func TestWhatIsRetriedAndHowOften(t *testing.T) {
	t.Parallel()
	broken := errors.New("the vault is closed")
	for name, tt := range map[string]struct {
		status, headers int // answers, and headers that fail first
		endpoint        string
		tries           int
		says            string
	}{
		"a collector that is busy":      {status: 429, tries: 5, says: "429"},
		"a gateway":                     {status: 502, tries: 5, says: "502"},
		"a collector that is away":      {status: 503, tries: 5, says: "503"},
		"a gateway that waits":          {status: 504, tries: 5, says: "504"},
		"a refusal":                     {status: 400, tries: 1, says: "400"},
		"an error of its own":           {status: 500, tries: 1, says: "500"},
		"another answer":                {status: 302, tries: 1, says: "302"},
		"headers that come late":        {status: 200, headers: 2, tries: 1},
		"headers that never come":       {status: 200, headers: 100, says: "the vault is closed"},
		"accepted":                      {status: 202, tries: 1},
		"nobody there":                  {endpoint: "http://127.0.0.1:1", says: "refused"},
		"an endpoint that is no URL":    {endpoint: "http://[::1", says: "lost=1"},
		"one that is too large by half": {status: 413, tries: 1, says: "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries, headers atomic.Int64
			o := receipt.OTLPOptions{Endpoint: tt.endpoint, Headers: func(context.Context) (map[string]string, error) {
				if int(headers.Add(1)) <= tt.headers {
					return nil, broken
				}
				return nil, nil
			}}
			log := send(t, o, func(w http.ResponseWriter, _ *http.Request) {
				tries.Add(1)
				w.WriteHeader(tt.status)
			}, receipts("a"))
			if int(tries.Load()) != tt.tries || tt.says == "" && log != "" || !strings.Contains(log, tt.says) {
				t.Errorf("after %d tries: %s", tries.Load(), log)
			}
			if tt.says != "" && !strings.Contains(log, "lost=1 ") {
				t.Errorf("it does not say that one is lost: %s", log)
			}
			if n := headers.Load(); tt.headers == 100 && n != 5 {
				t.Errorf("asked %d times for headers", n)
			}
		})
	}
}

func TestWhatIsTooLargeInItsPartsIsCounted(t *testing.T) {
	t.Parallel()
	log := send(t, receipt.OTLPOptions{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}, receipts("a", "b", "c"))
	lost := 0
	for _, word := range strings.Fields(log) {
		switch word { // they may have been sent in several groups
		case "lost=1":
			lost++
		case "lost=2":
			lost += 2
		case "lost=3":
			lost += 3
		}
	}
	if lost != 3 {
		t.Errorf("the log says %s", log)
	}
}

// attributes returns the attributes of the records in requests.
func TestARecordHasTheTimesAndTheErrorOfItsCall(t *testing.T) {
	t.Parallel()
	type record struct {
		TimeUnixNano, ObservedTimeUnixNano string
		Body                               struct{ StringValue string }
		Attributes                         []struct {
			Key   string
			Value struct{ StringValue, IntValue string }
		}
	}
	var got []record
	group := receipts("failed", "wrong")
	group[0].Usage = toolroom.Usage{Queue: 1, Wait: 20, Run: 300}
	group[1].Arguments = json.RawMessage(`{"broken`)
	log := send(t, receipt.OTLPOptions{Version: "1.2"}, func(_ http.ResponseWriter, r *http.Request) {
		var body struct {
			ResourceLogs []struct {
				ScopeLogs []struct{ LogRecords []record }
			}
		}
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &body); err != nil || !bytes.Contains(text, []byte(`"service.version","value":{"stringValue":"1.2"}`)) {
			t.Errorf("%s, %v", text, err)
		}
		got = append(got, body.ResourceLogs[0].ScopeLogs[0].LogRecords...)
	}, group)
	if log != "" || len(got) != 2 {
		t.Fatalf("%d records, %s", len(got), log)
	}
	if got[0].TimeUnixNano != "5000000000" || got[0].ObservedTimeUnixNano != "5000000321" {
		t.Errorf("%+v", got[0])
	}
	last := got[0].Attributes[len(got[0].Attributes)-1]
	if last.Key != "error.type" || last.Value.StringValue != "internal" {
		t.Errorf("%+v", got[0].Attributes)
	}
	if body := got[1].Body.StringValue; body != "call wrong of : ok" {
		t.Errorf("%q", body)
	}
}

func TestAnExporterWithoutOptionsWaitsForNothing(t *testing.T) {
	t.Parallel()
	var groups []int
	block := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-block
		text, _ := io.ReadAll(r.Body)
		groups = append(groups, bytes.Count(text, []byte("toolroom.call")))
	}))
	t.Cleanup(server.Close)
	e := receipt.NewOTLP(receipt.OTLPOptions{Endpoint: server.URL})
	ids := make([]string, 1200)
	e.Write(receipts(ids...))
	close(block)
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range groups {
		sum += n
		if n > 512 {
			t.Errorf("a request has %d records", n)
		}
	}
	// All but the first are full as far as there are records.
	if sum != len(ids) || len(groups) > 4 {
		t.Errorf("sent in %v", groups)
	}
}

func TestAnExporterClosesItsConnections(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 10)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	e := receipt.NewOTLP(receipt.OTLPOptions{Endpoint: server.URL})
	e.Write(receipts("a"))
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Error("the connection is open")
	}
}

func TestAnExporterThatIsGivenUpStopsTrying(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		tried <- struct{}{}
	}))
	t.Cleanup(server.Close)
	var log bytes.Buffer
	e := receipt.NewOTLP(receipt.OTLPOptions{Endpoint: server.URL, Retry: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))})
	e.Write(receipts("a"))
	<-tried
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Close(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not sent") {
		t.Error(err)
	}
}

package mcp

import (
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// texts are what clients send: messages, and what two readers could understand in two ways.
var texts = []struct {
	text    string
	message bool
}{
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":1},"_meta":{"progressToken":7},"inputResponses":{"q":{}},"requestState":"s","more":[1]}}`, true},
	{`{"jsonrpc":"2.0","id":1,"result":{"x":1,"y":{}}}`, true},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[{"name":"a"}]}`, true}, // refused when it is served
	{`{"jsonrpc":"2.0","id":"\ud800","method":"tools/call","params":{"name":"\ud800","_meta":{"progressToken":"\ud800"}}}`, true},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, false},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"x":1,"x":2}}}`, false},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"inputResponses":{"x":1,"x":2}}}`, false},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","Params":{}}`, false},
	{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"Name":"b","name":"a","arguments":[1]}}`, false},
	{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, false},
	{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, false},
	{`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, false},
}

func TestABrokenMessageIsRefusedWhereverItBreaksOff(t *testing.T) {
	t.Parallel()
	for _, c := range texts {
		for end := range len(c.text) {
			if m, err := readMessage([]byte(c.text[:end])); err == nil {
				t.Errorf("%s is taken for a message: %+v", c.text[:end], m)
			}
		}
		if _, err := readMessage([]byte(c.text)); (err == nil) != c.message {
			t.Errorf("%s: %v", c.text, err)
		}
	}
}

func TestAClientsInfoHasStringsWhereItMust(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]bool{
		`null`: true, `{}`: true, `{"name":"a","version":"1","icons":[1]}`: true, `{"name":null}`: true,
		`{"name":1}`: false, `{"Version":{}}`: false, `{"ver\u0073ion":1}`: false, `{"name":"a","name":2}`: false, `[]`: false, `"a"`: false,
	} {
		if got := isImplementation(json.RawMessage(info)); got != want {
			t.Errorf("%s: %v, want %v", info, got, want)
		}
	}
}

func FuzzBothReadersReadTheSame(f *testing.F) {
	for _, c := range texts {
		f.Add([]byte(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var strict, loose messageReader
		if strict.read(text) != nil {
			return
		}
		if err := loose.readLoosely(text); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(strict, loose, cmp.AllowUnexported(messageReader{}, incoming{}, clientMeta{}), cmpopts.IgnoreUnexported(ServerRequest{})); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
		if m, err := readMessage(text); err == nil && (m.Params != nil && !json.Valid(m.Params) || m.Meta != nil && !json.Valid(m.Meta) || m.Other != nil && !json.Valid(m.Other)) {
			t.Errorf("%q is passed on as %q, %q, %q", text, m.Params, m.Meta, m.Other)
		}
	})
}

func TestTheLogDropsTheOldestEventsFirst(t *testing.T) {
	t.Parallel()
	log := &eventLog{max: 10 * (100 + eventWeight)}
	ss := newStreams(log)
	old, young := ss.open(), ss.open()
	text := []byte(`"` + strings.Repeat("x", 98) + `"`)
	for range 5 {
		_ = old.send(text, false)
	}
	for range 8 {
		_ = young.send(text, false)
	}
	if _, err := old.connect(httptest.NewRecorder(), 0); err == nil {
		t.Error("dropped events can be read")
	}
	if events, first := log.from(&old.journal, 4); len(events) != 1 || first != 4 {
		t.Errorf("the rest is %d events from %d", len(events), first)
	}
	ss.dropAll()
	if log.size != 0 || len(log.order) != 0 {
		t.Errorf("%d bytes and %d events are left", log.size, len(log.order))
	}
}

func TestASilentStreamIsKeptAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := newStream(nil)
		k, err := s.connect(w, -1)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.send([]byte(`{"a":1}`), false)
		<-time.After(keepAlivePeriod + keepAlivePeriod/2)
		_ = s.send([]byte(`{"b":1}`), true)
		<-k.gone
		if got := w.Body.String(); got != "event: message\ndata: {\"a\":1}\n\n: alive\n\nevent: message\ndata: {\"b\":1}\n\n" {
			t.Errorf("the stream was %q", got)
		}
		if w.Header().Get("X-Accel-Buffering") != "no" {
			t.Error("proxies may hold the stream back")
		}
	})
}

func TestADroppedStreamDoesNotFillTheMemoryOfASession(t *testing.T) {
	t.Parallel()
	ss := newStreams(&eventLog{max: 20 * eventWeight})
	for i := range 1000 {
		_ = ss.open().send([]byte(strconv.Itoa(i)), true)
	}
	if len(ss.byID) > 200 {
		t.Errorf("%d streams are kept", len(ss.byID))
	}
}

package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func TestAChainOfReceiptsChecksLinkByLink(t *testing.T) {
	t.Parallel()
	end, links := chainOf(t, "a", "b", "c")
	var at Chain
	for i, l := range links {
		next, r, err := at.Check(l)
		if err != nil {
			t.Fatalf("link %d: %v", i, err)
		}
		if r.Seq != int64(i+1) || r.Hash != l.Hash {
			t.Errorf("link %d has seq %d, hash %q", i, r.Seq, r.Hash)
		}
		at = next
	}
	if err := at.CheckEnd(end); err != nil {
		t.Error(err)
	}
}

func TestAChainFindsTampering(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tamper func(links []Record) []Record
		want   []string
	}{
		"a changed receipt": {
			func(l []Record) []Record {
				l[1].Body = json.RawMessage(strings.Replace(string(l[1].Body), `"b"`, `"x"`, 1))
				return l
			}, []string{"receipt 2", "call x", "not what was recorded"},
		},
		"a changed hash": {
			func(l []Record) []Record { l[1].Hash = l[0].Hash; return l },
			[]string{"receipt 2", "call b", "not what was recorded"},
		},
		"a changed number under a new hash": {
			func(l []Record) []Record {
				l[1].Body = json.RawMessage(strings.Replace(string(l[1].Body), `"seq":2`, `"seq":9`, 1))
				l[1].Hash = Chain{l[0].Seq, l[0].Hash}.link(l[1].Body)
				return l
			}, []string{"receipt 2", "call b", "not what was recorded"},
		},
		"a removed receipt": {
			func(l []Record) []Record { return append(l[:1], l[2:]...) },
			[]string{"receipt 3", "call c", "receipt 2 is missing"},
		},
		"a renumbered receipt": {
			func(l []Record) []Record { l[2].Seq = 2; return append(l[:1], l[2:]...) },
			[]string{"receipt 2", "call c", "not what was recorded"},
		},
		"a receipt that is no JSON": {
			func(l []Record) []Record { l[0].Body = json.RawMessage("{"); return l },
			[]string{"receipt 1", "cannot be read"},
		},
		"receipts cut off at the end": {
			func(l []Record) []Record { return l[:1] },
			[]string{"receipt 2", "all up to 3 are missing"},
		},
		"a receipt added behind the store's back": {
			func(l []Record) []Record {
				_, k, _ := Chain{3, l[2].Hash}.Next(&toolroom.Receipt{ID: "d"})
				return append(l, k)
			}, []string{"receipt 4", "was not added by Toolroom"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			end, links := chainOf(t, "a", "b", "c")
			err := check(end, tt.tamper(links))
			if err == nil {
				t.Fatal("the chain was found whole")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestAReceiptComesBackAsItWasEncoded(t *testing.T) {
	t.Parallel()
	want := &toolroom.Receipt{
		ID:        "call_1",
		Tool:      "file:read",
		Source:    toolroom.SourceGo,
		Surface:   "cli",
		Identity:  toolroom.Identity{Subject: "ann", Groups: []string{"dev"}},
		Arguments: json.RawMessage(`{"big":12345678901234567890,"path":"<a>"}`),
		Status:    toolroom.StatusError,
		Error:     toolroom.Errorf(toolroom.CodeTimeout, "too slow"),
		Started:   time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Usage:     toolroom.Usage{Run: time.Second},
	}
	end, k, err := Chain{}.Next(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.Receipt()
	if err != nil {
		t.Fatal(err)
	}
	want.Seq, want.Hash = 1, end.Hash
	normalise := cmp.Transformer("compact", func(raw json.RawMessage) string {
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			return string(raw)
		}
		text, _ := json.Marshal(v)
		return string(text)
	})
	if diff := cmp.Diff(want, got, normalise); diff != "" {
		t.Errorf("receipt (-want +got):\n%s", diff)
	}
}

func TestAReceiptIsStoredEvenWhenADetailHasNoJSONForm(t *testing.T) {
	t.Parallel()
	bad := toolroom.Errorf(toolroom.CodeExecutionFailed, "it failed")
	bad.Details = map[string]any{"ratio": math.NaN()}
	for name, r := range map[string]*toolroom.Receipt{
		"arguments": {ID: "a", Arguments: json.RawMessage(`{"a":`), Error: toolroom.Errorf(toolroom.CodeInternal, "it failed")},
		"details":   {ID: "a", Arguments: json.RawMessage(`{"a":1}`), Error: bad},
	} {
		_, k, err := Chain{}.Next(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, got, err := Chain{}.Check(k)
		if err != nil || got.Error == nil || got.Error.Message != "it failed" {
			t.Errorf("%s: stored %s %s, %v", name, k.Body, k.Detail, err)
		}
	}
	if bad.Details == nil {
		t.Error("the caller's error was changed")
	}
}

func TestAReceiptOfAnOlderVersionStillFits(t *testing.T) {
	t.Parallel()
	// As version 0.1 stored it: everything in the body.
	body := json.RawMessage(`{"id":"call_1","tool":"file:read","surface":"cli","arguments":{"a":1},"status":"error","error":{"code":"timeout","message":"too slow","retryable":true},"preview":"text","started":"2026-01-02T03:04:05Z","usage":{"queue_ns":0,"run_ns":0},"seq":1}`)
	k := Record{Seq: 1, Hash: Chain{}.link(body), Body: body}
	_, r, err := Chain{}.Check(k)
	if err != nil {
		t.Fatal(err)
	}
	if string(r.Arguments) != `{"a":1}` || r.Error.Message != "too slow" || r.Preview != "text" || r.Redacted {
		t.Errorf("it reads as %+v", r)
	}
	k.Detail = json.RawMessage(`{"preview":"another"}`)
	if _, _, err := (Chain{}).Check(k); err == nil {
		t.Error("details were added to it, and it fits")
	}
}

func chainOf(t *testing.T, ids ...string) (Chain, []Record) {
	t.Helper()
	var at Chain
	var links []Record
	for _, id := range ids {
		next, k, err := at.Next(&toolroom.Receipt{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, k)
		at = next
	}
	return at, links
}

func check(end Chain, links []Record) error {
	var at Chain
	for _, l := range links {
		next, _, err := at.Check(l)
		if err != nil {
			return err
		}
		at = next
	}
	return at.CheckEnd(end)
}

// Others compute the chain from an export, so what a hash covers does not change.
func TestALinkCoversTheOneBeforeIt(t *testing.T) {
	t.Parallel()
	_, links := chainOf(t, "a", "b")
	sum := sha256.Sum256([]byte(links[0].Hash + "\n" + string(links[1].Body)))
	if want := hex.EncodeToString(sum[:]); links[1].Hash != want {
		t.Errorf("the hash is %s, want %s", links[1].Hash, want)
	}
	if _, _, err := (Chain{Seq: 1, Hash: strings.Repeat("0", 64)}).Check(links[1]); err == nil {
		t.Error("a link fits another one before it")
	}
	end := Chain{Seq: 2, Hash: links[1].Hash}
	if err := end.CheckEnd(Chain{Seq: 2, Hash: links[0].Hash}); err == nil || !strings.Contains(err.Error(), "receipt 2 does not fit: it is not the one") {
		t.Errorf("another end: %v", err)
	}
}

func TestTheDetailsOfARecord(t *testing.T) {
	t.Parallel()
	_, k, err := Chain{}.Next(&toolroom.Receipt{
		ID: "a", Arguments: json.RawMessage(`{"kept":true}`), Value: json.RawMessage(`{"broken`), Logs: []toolroom.LogLine{{Message: "line"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := k.Receipt()
	if err != nil || string(r.Arguments) != `{"kept":true}` || r.Value != nil {
		t.Errorf("with a value that is no JSON: %+v, %v", r, err)
	}
	_, k, err = Chain{}.Next(&toolroom.Receipt{ID: "a", Value: json.RawMessage(`{"n":1}`), Logs: []toolroom.LogLine{{Message: "line"}}})
	if err != nil {
		t.Fatal(err)
	}
	if r, err = k.Receipt(); err != nil || string(r.Value) != `{"n":1}` || len(r.Logs) != 1 || r.Logs[0].Message != "line" {
		t.Errorf("%+v, %v", r, err)
	}
	k.Detail = json.RawMessage("{")
	if _, err := k.Receipt(); err == nil {
		t.Error("details that are no JSON were read")
	}
}

func TestAWalkEndsWhereEveryRedactionIsExplained(t *testing.T) {
	t.Parallel()
	end, links := chainOf(t, "a", "b")
	walk := func(links ...Record) error {
		var w Walk
		for _, k := range links {
			if _, err := w.Next(k); err != nil {
				t.Fatal(err)
			}
		}
		return w.End(end)
	}
	if err := walk(links...); err != nil {
		t.Error(err)
	}
	if err := walk(links[0]); err == nil || !strings.Contains(err.Error(), "receipt 2") {
		t.Errorf("without its end: %v", err)
	}
	links[0].Detail = nil
	if err := walk(links...); err == nil || !strings.Contains(err.Error(), "receipt 1 (call a)") || !strings.Contains(err.Error(), "no redaction is recorded") {
		t.Errorf("without its details: %v", err)
	}
	end, notice, err := end.Next(&toolroom.Receipt{ID: "notice", Redacts: []int64{1}})
	if err != nil {
		t.Fatal(err)
	}
	var w Walk
	for _, k := range append(links, notice) {
		if _, err := w.Next(k); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(end); err != nil {
		t.Errorf("with its notice: %v", err)
	}
}

func TestAQueryHasALimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{-1: DefaultLimit, 0: DefaultLimit, 1: 1, MaxLimit: MaxLimit, MaxLimit + 1: MaxLimit} {
		if got := RowLimit(toolroom.ReceiptQuery{Limit: limit}); got != want {
			t.Errorf("%d becomes %d", limit, got)
		}
	}
}

func TestAKeyOfAnotherLengthHasSignedNothing(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, []byte("short"), make([]byte, 33)} {
		if hasSignature(key, manifestContext, []byte("{}"), make([]byte, 64)) {
			t.Errorf("a key of %d bytes has signed", len(key))
		}
	}
}

// A receipt is encoded before its number is known, and stored as if it had been known.
func TestADraftIsEncodedOnce(t *testing.T) {
	t.Parallel()
	trap := `,"seq":-1`
	d := &Draft{Receipt: toolroom.Receipt{
		ID: trap, Tool: "a:b", Labels: []string{trap}, Arguments: json.RawMessage(`{"x":1,"seq":-1}`), Preview: trap,
		Error: &toolroom.Error{Code: toolroom.CodeInternal, Tool: trap, Message: trap}, Redacts: []int64{-1}, Seq: 3, Hash: "before",
	}}
	if err := d.encode(); err != nil {
		t.Fatal(err)
	}
	read, err := readEntry(d.appendLine(nil, 12))
	if err != nil || read.Entry != 12 || read.Seq != 0 || read.ID != trap || string(read.Arguments) != string(d.Arguments) {
		t.Errorf("the journal has %+v, %v", read, err)
	}
	detail := d.detail
	begin := Chain{Seq: 41, Hash: Hash([]byte("41"))}
	end, k, err := begin.NextDraft(d)
	if err != nil || !bytes.Equal(k.Detail, detail) {
		t.Errorf("it was encoded again: %v", err)
	}
	if checked, r, err := begin.Check(k); err != nil || checked != end || r.Seq != 42 || r.ID != trap || r.Error.Tool != trap || r.Labels[0] != trap {
		t.Errorf("%+v, %+v, %v", checked, r, err)
	}
	for _, line := range []string{"", "x {}", "1 {", "1 {}", `1 {"body":[]}`} {
		if read, err := readEntry([]byte(line)); err == nil {
			t.Errorf("%q was read: %+v", line, read)
		}
	}
}

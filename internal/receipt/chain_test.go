package receipt

import (
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

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
		next, r, err := at.Check(l.seq, l.hash, l.body)
		if err != nil {
			t.Fatalf("link %d: %v", i, err)
		}
		if r.Seq != int64(i+1) || r.Hash != l.hash {
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
		tamper func(links []link) []link
		want   []string
	}{
		"a changed receipt": {
			func(l []link) []link {
				l[1].body = []byte(strings.Replace(string(l[1].body), `"b"`, `"x"`, 1))
				return l
			}, []string{"receipt 2", "call x", "not what was recorded"},
		},
		"a changed hash": {
			func(l []link) []link { l[1].hash = l[0].hash; return l },
			[]string{"receipt 2", "call b", "not what was recorded"},
		},
		"a removed receipt": {
			func(l []link) []link { return append(l[:1], l[2:]...) },
			[]string{"receipt 3", "call c", "receipt 2 is missing"},
		},
		"a renumbered receipt": {
			func(l []link) []link { l[2].seq = 2; return append(l[:1], l[2:]...) },
			[]string{"receipt 2", "call c", "not what was recorded"},
		},
		"a receipt that is no JSON": {
			func(l []link) []link { l[0].body = []byte("{"); return l },
			[]string{"receipt 1", "cannot be read"},
		},
		"receipts cut off at the end": {
			func(l []link) []link { return l[:1] },
			[]string{"receipt 2", "all up to 3 are missing"},
		},
		"a receipt added behind the store's back": {
			func(l []link) []link {
				next, body, _ := Chain{3, l[2].hash}.Next(&Receipt{ID: "d"})
				return append(l, link{next.Seq, next.Hash, body})
			}, []string{"receipt 4", "added by something else"},
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
	want := &Receipt{
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
	end, body, err := Chain{}.Next(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(end.Hash, body)
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
	for name, r := range map[string]*Receipt{
		"arguments": {ID: "a", Arguments: json.RawMessage(`{"a":`), Error: toolroom.Errorf(toolroom.CodeInternal, "it failed")},
		"details":   {ID: "a", Arguments: json.RawMessage(`{"a":1}`), Error: bad},
	} {
		end, body, err := Chain{}.Next(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, got, err := Chain{}.Check(end.Seq, end.Hash, body)
		if err != nil || got.Error == nil || got.Error.Message != "it failed" {
			t.Errorf("%s: stored %s, %v", name, body, err)
		}
	}
	if bad.Details == nil {
		t.Error("the caller's error was changed")
	}
}

type link struct {
	seq  int64
	hash string
	body []byte
}

func chainOf(t *testing.T, ids ...string) (Chain, []link) {
	t.Helper()
	var at Chain
	var links []link
	for _, id := range ids {
		next, body, err := at.Next(&Receipt{ID: id})
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, link{next.Seq, next.Hash, body})
		at = next
	}
	return at, links
}

func check(end Chain, links []link) error {
	var at Chain
	for _, l := range links {
		next, _, err := at.Check(l.seq, l.hash, l.body)
		if err != nil {
			return err
		}
		at = next
	}
	return at.CheckEnd(end)
}

package pin_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/pin"
)

func of(t *testing.T, raw string) pin.Pin {
	t.Helper()
	p, err := pin.Of("s", &toolroom.Tool{ID: toolroom.MustParseID("s:x"), Raw: json.RawMessage(raw)}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTheHashIsOfWhatIsSaidNotOfHowItIsWritten(t *testing.T) {
	t.Parallel()
	base := `{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`
	for text, same := range map[string]bool{
		`{"annotations":{"readOnlyHint":true}, "name":"x", "inputSchema": {"type":"object"},"description":"R\u0065ads."}`:         true,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"n":1}}`: false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"timeout":1}`:     false,
		`{"name":"x","description":"Reads. ","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`:                false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false}}`:                false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object","x":1},"annotations":{"readOnlyHint":true}}`:           false,
		`{"name":"x","description":"Reads.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"icons":["new"]}`: false,
	} {
		if got := of(t, text).Hash == of(t, base).Hash; got != same {
			t.Errorf("%s: same is %v", text, got)
		}
	}
}

func TestAPinGivesBackTheToolThatWasTaken(t *testing.T) {
	t.Parallel()
	yes := true
	want := toolroom.Tool{
		ID: toolroom.MustParseID("s:x"), Description: "Reads.", InputSchema: json.RawMessage(`{"type":"object"}`),
		Hints: toolroom.Hints{ReadOnly: &yes}, Source: toolroom.SourceMCP, Raw: json.RawMessage(`{ "name": "x" }`),
	}
	p, err := pin.Of("s", &want, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Restore()
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestADifferenceNamesEachPlace(t *testing.T) {
	t.Parallel()
	before := of(t, `{"name":"x","description":"a","inputSchema":{"properties":{"a/b":{"type":"string"},"gone":{}},"required":["a"]}}`)
	after := of(t, `{"name":"x","description":"b","inputSchema":{"properties":{"a/b":{"type":"number"},"new":{"n":1}},"required":["a","c"]}}`)
	other := before
	other.Tool = "s:other"
	fresh := before
	fresh.Tool = "s:fresh"
	want := []pin.Difference{
		{Tool: "s:fresh", State: pin.New},
		{Tool: "s:other", State: pin.Gone},
		{Tool: "s:x", State: pin.Changed, Changes: []pin.Change{
			{Path: "/description", Old: "a", New: "b"},
			{Path: "/inputSchema/properties/a~1b/type", Old: "string", New: "number"},
			{Path: "/inputSchema/properties/gone", Old: "{}"},
			{Path: "/inputSchema/properties/new", New: `{"n":1}`},
			{Path: "/inputSchema/required", Old: `["a"]`, New: `["a","c"]`},
		}},
	}
	if diff := cmp.Diff(want, pin.Compare([]pin.Pin{before, other}, []pin.Pin{after, fresh})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheDigestOfAnOfferDependsOnEachTool(t *testing.T) {
	t.Parallel()
	a, b := of(t, `{"name":"a"}`), of(t, `{"name":"b"}`)
	b.Tool = "s:b"
	if pin.Digest([]pin.Pin{a, b}) != pin.Digest([]pin.Pin{b, a}) || pin.Digest([]pin.Pin{a}) == pin.Digest([]pin.Pin{a, b}) {
		t.Error("the digest depends on the order, or not on the tools")
	}
}

func TestPinsOfEarlierVersionsHaveTheHashOfThisOne(t *testing.T) {
	t.Parallel()
	now := of(t, `{"name":"x","_meta":{"ui":{"resourceUri":"ui://a"}}}`)
	old := now
	old.Hash = "of an earlier version, without _meta"
	if got, err := old.Rehash(); err != nil || got.Hash != now.Hash {
		t.Errorf("got %s, %v", got.Hash, err)
	}
	other := of(t, `{"name":"x","_meta":{"ui":{"resourceUri":"ui://b"}}}`)
	want := []pin.Difference{{Tool: now.Tool, State: pin.Changed, Changes: []pin.Change{{Path: "/_meta/ui/resourceUri", Old: "ui://a", New: "ui://b"}}}}
	if diff := cmp.Diff(want, pin.Compare([]pin.Pin{now}, []pin.Pin{other})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package storetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/pin"
)

var pinTests = []test{
	{"pins come back whole and in order, also after reopening", func(t *testing.T, b Backend) {
		s := b.Open(t)
		must(t, s.AddPins(t.Context(), []pin.Pin{newPin("a", "y"), newPin("a", "x"), newPin("b", "x")}))
		for name, s := range map[string]Store{"same handle": s, "reopened": b.Open(t)} {
			wantPins(t, name, s, "a", newPin("a", "x"), newPin("a", "y"))
			wantPins(t, name, s, "none")
		}
	}},
	{"a pin that is there stays, whoever comes second", func(t *testing.T, b Backend) {
		other := newPin("a", "x")
		other.Hash = "other"
		wins := race(t, b, func(s Store, racer int) bool {
			p := other
			if racer == 0 {
				p = newPin("a", "x")
			}
			return s.AddPins(t.Context(), []pin.Pin{p}) == nil
		})
		if wins != racers {
			t.Errorf("%d of %d could add", wins, racers)
		}
		s := b.Open(t)
		first, err := s.Pins(t.Context(), "a")
		must(t, err)
		must(t, s.AddPins(t.Context(), []pin.Pin{newPin("a", "x"), other}))
		wantPins(t, "after another", s, "a", first...)
	}},
	{"widening takes the place of a pin, and adds one that is missing", func(t *testing.T, b Backend) {
		s := b.Open(t)
		must(t, s.AddPins(t.Context(), []pin.Pin{newPin("a", "x"), newPin("b", "x")}))
		wider := newPin("a", "x")
		wider.Hash, wider.Raw = "wider", json.RawMessage(`{"name": "xy"}`)
		must(t, s.WidenPins(t.Context(), []pin.Pin{wider, newPin("a", "y")}))
		wantPins(t, "a", b.Open(t), "a", wider, newPin("a", "y"))
		wantPins(t, "b", s, "b", newPin("b", "x"))
	}},
	{"replacing makes them all there are of a source", func(t *testing.T, b Backend) {
		s := b.Open(t)
		must(t, s.AddPins(t.Context(), []pin.Pin{newPin("a", "x"), newPin("a", "y"), newPin("b", "x")}))
		changed := newPin("a", "x")
		changed.Hash, changed.Raw = "changed", nil
		must(t, s.ReplacePins(t.Context(), "a", []pin.Pin{changed}))
		wantPins(t, "a", b.Open(t), "a", changed)
		wantPins(t, "b", s, "b", newPin("b", "x"))
	}},
}

func newPin(source, tool string) pin.Pin {
	return pin.Pin{
		Source: source, Tool: source + ":" + tool, Hash: "hash of " + tool,
		Definition: json.RawMessage(`{"id":"` + tool + `"}`), Raw: json.RawMessage(`{"name": "x"}`),
		Pinned: start.Add(time.Second),
	}
}

func wantPins(t *testing.T, what string, s Store, source string, want ...pin.Pin) {
	t.Helper()
	got, err := s.Pins(t.Context(), source)
	must(t, err)
	if len(got)+len(want) == 0 {
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

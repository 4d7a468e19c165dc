package mcp

import (
	"bytes"
	"testing"
	"time"
)

func TestAStateOpensForItsOwnerItsRequestAndItsTimeOnly(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte("k"), StateKeySize)
	ours, err := newSealer(key)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	state := requestState{Call: "d", Turn: 1, Owner: "ada", Request: []byte("request"), Expires: now.Add(time.Minute)}
	sealed, err := ours.seal(state)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := newSealer(nil)
	if err != nil {
		t.Fatal(err)
	}
	forged, err := stranger.seal(state)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(sealed)
	changed[0] ^= 'A' ^ 'B'
	for name, c := range map[string]struct {
		text, owner, request string
		at                   time.Time
		opens                bool
	}{
		"as it was given":     {sealed, "ada", "request", now, true},
		"at its last moment":  {sealed, "ada", "request", state.Expires, true},
		"expired":             {sealed, "ada", "request", state.Expires.Add(time.Nanosecond), false},
		"another identity":    {sealed, "eve", "request", now, false},
		"nobody":              {sealed, "", "request", now, false},
		"another request":     {sealed, "ada", "other", now, false},
		"sealed by a forger":  {forged, "ada", "request", now, false},
		"not sealed":          {"eyJkIjoiZCIsIm8iOiJhZGEifQ", "ada", "request", now, false},
		"changed":             {string(changed), "ada", "request", now, false},
		"cut off":             {sealed[:20], "ada", "request", now, false},
		"empty":               {"", "ada", "request", now, false},
		"with padding behind": {sealed + "=", "ada", "request", now, false},
	} {
		got, err := ours.open(c.text, c.owner, []byte(c.request), c.at)
		if (err == nil) != c.opens || c.opens && got.Call != "d" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

package sqlite

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
)

var keyTests = []test{
	{"a claimed key is held, also after reopening", func(t *testing.T, d database) {
		first := newKey("call_1")
		held, claimed, err := d.open(t).ClaimKey(t.Context(), first, start)
		if diff := cmp.Diff(first, held); err != nil || !claimed || diff != "" {
			t.Fatalf("first claim: %v, %v (-want +got):\n%s", claimed, err, diff)
		}
		held, claimed, err = d.open(t).ClaimKey(t.Context(), newKey("call_2"), start)
		if diff := cmp.Diff(first, held); err != nil || claimed || diff != "" {
			t.Errorf("second claim: %v, %v (-want +got):\n%s", claimed, err, diff)
		}
	}},
	{"keys are apart per identity", func(t *testing.T, d database) {
		s := d.open(t)
		claimKey(t, s, newKey("call_1"), start, true)
		other := newKey("call_2")
		other.Identity = "bob"
		claimKey(t, s, other, start, true)
		another := newKey("call_3")
		another.Key = "another"
		claimKey(t, s, another, start, true)
	}},
	{"a finished key holds the result until it expires", func(t *testing.T, d database) {
		s := d.open(t)
		k := newKey("call_1")
		claimKey(t, s, k, start, true)
		k.Result = json.RawMessage(`{"value":12345678901234567890}`)
		must(t, s.FinishKey(t.Context(), k.Identity, k.Key, k.Call, k.Result))
		held := claimKey(t, d.open(t), newKey("call_2"), k.Expires, false)
		if diff := cmp.Diff(k, held); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
		next := newKey("call_2")
		next.Expires = k.Expires.Add(time.Hour)
		held = claimKey(t, s, next, k.Expires.Add(time.Microsecond), true)
		if diff := cmp.Diff(next, held); diff != "" {
			t.Errorf("claimed after it expired (-want +got):\n%s", diff)
		}
	}},
	{"a result is taken from the holder only", func(t *testing.T, d database) {
		s := d.open(t)
		k := newKey("call_1")
		wantCode(t, "unclaimed", s.FinishKey(t.Context(), k.Identity, k.Key, k.Call, json.RawMessage(`1`)), toolroom.CodeNotFound)
		claimKey(t, s, k, start, true)
		wantCode(t, "another holds it", s.FinishKey(t.Context(), k.Identity, k.Key, "call_2", json.RawMessage(`1`)), toolroom.CodeConflict)
		if held := claimKey(t, s, newKey("call_2"), start, false); held.Result != nil {
			t.Errorf("result %s", held.Result)
		}
	}},
	{"a released key is free", func(t *testing.T, d database) {
		s := d.open(t)
		k := newKey("call_1")
		must(t, s.ReleaseKey(t.Context(), k.Identity, k.Key, k.Call))
		claimKey(t, s, k, start, true)
		must(t, s.ReleaseKey(t.Context(), k.Identity, k.Key, k.Call))
		claimKey(t, s, newKey("call_2"), start, true)
	}},
	{"a key is released by its holder only, and not with a result", func(t *testing.T, d database) {
		s := d.open(t)
		k := newKey("call_1")
		claimKey(t, s, k, start, true)
		wantCode(t, "another holds it", s.ReleaseKey(t.Context(), k.Identity, k.Key, "call_2"), toolroom.CodeConflict)
		must(t, s.FinishKey(t.Context(), k.Identity, k.Key, k.Call, json.RawMessage(`1`)))
		wantCode(t, "it has a result", s.ReleaseKey(t.Context(), k.Identity, k.Key, k.Call), toolroom.CodeConflict)
		if held := claimKey(t, s, newKey("call_2"), start, false); string(held.Result) != "1" {
			t.Errorf("result %s", held.Result)
		}
	}},
	{"of many who claim a key at once, one gets it", func(t *testing.T, d database) {
		wins := race(t, d, func(s *Store, racer int) bool {
			_, claimed, err := s.ClaimKey(t.Context(), newKey(fmt.Sprintf("call_%d", racer)), start)
			if err != nil {
				t.Error(err)
			}
			return claimed
		})
		if wins != 1 {
			t.Errorf("%d claims of one key", wins)
		}
	}},
	{"of many who claim an expired key at once, one gets it", func(t *testing.T, d database) {
		old := newKey("call_old")
		claimKey(t, d.open(t), old, start, true)
		wins := race(t, d, func(s *Store, racer int) bool {
			k := newKey(fmt.Sprintf("call_%d", racer))
			k.Expires = old.Expires.Add(time.Hour)
			_, claimed, err := s.ClaimKey(t.Context(), k, old.Expires.Add(time.Minute))
			if err != nil {
				t.Error(err)
			}
			return claimed
		})
		if wins != 1 {
			t.Errorf("%d claims of one key", wins)
		}
	}},
}

func newKey(call string) run.KeyRecord {
	return run.KeyRecord{
		Identity: "ann", Key: "key", Tool: "file:write", ArgumentsHash: "aa", Call: call, Owner: "host/1",
		Created: start, Expires: start.Add(24 * time.Hour),
	}
}

func claimKey(t *testing.T, s *Store, k run.KeyRecord, now time.Time, want bool) run.KeyRecord {
	t.Helper()
	held, claimed, err := s.ClaimKey(t.Context(), k, now)
	must(t, err)
	if claimed != want {
		t.Fatalf("claimed = %v, want %v; held by %s", claimed, want, held.Call)
	}
	return held
}

package receipt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// chainStore is a store with a chain alone.
type chainStore struct {
	Store
	first   Checkpoint
	end     Chain
	records []Record
}

func (s *chainStore) ReceiptEnds(context.Context) (first Checkpoint, end Chain, err error) {
	return s.first, s.end, nil
}

func (s *chainStore) ReceiptRecords(_ context.Context, after int64, limit int) ([]Record, error) {
	var list []Record
	for _, r := range s.records {
		if r.Seq > after && len(list) < limit {
			list = append(list, r)
		}
	}
	return list, nil
}

func TestAHeadMissesAStoreThatIsNotTheOneItNoted(t *testing.T) {
	t.Parallel()
	hash := func(c string) string { return strings.Repeat(c, 64) }
	store := func(first, end int64, hashes string) *chainStore {
		s := &chainStore{first: Checkpoint{Seq: first, Hash: hash(hashes)}, end: Chain{Seq: end, Hash: hash(hashes)}}
		for seq := first + 1; seq <= end; seq++ {
			s.records = append(s.records, Record{Seq: seq, Hash: hash(hashes)})
		}
		return s
	}
	for _, tt := range []struct {
		name string
		s    *chainStore
		good bool
	}{
		{"the same", store(0, 5, "a"), true},
		{"longer", store(0, 9, "a"), true},
		{"an older one", store(0, 4, "a"), false},
		{"none", store(0, 0, "a"), false},
		{"written anew", store(0, 9, "b"), false},
		{"its receipt was removed on purpose", store(7, 9, "a"), true},
		{"all up to its receipt were", store(5, 9, "a"), true},
		{"the same, of another chain", store(5, 9, "b"), false},
	} {
		path := filepath.Join(t.TempDir(), "receipts.head")
		h := NewHead(path)
		if err := h.Check(t.Context(), tt.s); err != nil {
			t.Errorf("%s, without a note: %v", tt.name, err)
		}
		if err := h.note(1, Chain{Seq: 5, Hash: hash("a")}); err != nil {
			t.Fatal(err)
		}
		if err := h.note(3, Chain{Seq: 4, Hash: hash("c")}); err != nil { // another process was faster
			t.Fatal(err)
		}
		err := h.Check(t.Context(), tt.s)
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := h.note(6, Chain{Seq: 6, Hash: hash("d")}); err != nil {
			t.Fatal(err)
		}
		if c, err := h.read(); err != nil || (c.Seq == 6) != tt.good {
			t.Errorf("%s: then %+v is noted, %v", tt.name, c, err)
		}
	}
	path := filepath.Join(t.TempDir(), "receipts.head")
	if err := os.WriteFile(path, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewHead(path).Check(t.Context(), store(0, 5, "a")); err == nil {
		t.Error("a head that cannot be read is no news")
	}
}

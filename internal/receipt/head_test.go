package receipt

import (
	"context"
	"errors"
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
		if err := h.advance(1, Chain{Seq: 5, Hash: hash("a")}); err != nil {
			t.Fatal(err)
		}
		if err := h.advance(3, Chain{Seq: 4, Hash: hash("c")}); err != nil { // another process was faster
			t.Fatal(err)
		}
		err := h.Check(t.Context(), tt.s)
		if (err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err := h.advance(6, Chain{Seq: 6, Hash: hash("d")}); err != nil {
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

func TestAHeadIsWrittenOnlyAfterTheOneThatIsThere(t *testing.T) {
	t.Parallel()
	hash := func(c string) string { return strings.Repeat(c, 64) }
	dir := t.TempDir()
	path := filepath.Join(dir, "receipts.head")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // as after a crash
		t.Fatal(err)
	}
	h := NewHead(path)
	if err := h.advance(1, Chain{5, hash("a")}); err != nil {
		t.Fatal(err)
	}
	if err := h.advance(5, Chain{9, hash("b")}); err != nil { // another process had 5
		t.Fatal(err)
	}
	if c, err := h.read(); err != nil || c != (Chain{5, hash("a")}) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{"5 short\n", "x " + hash("a") + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.advance(9, Chain{9, hash("b")}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the evidence %q became %q, %v", text, got, err)
		}
	}
	for name, h := range map[string]*Head{"a folder": NewHead(dir), "no folder": NewHead(filepath.Join(dir, "none", "head"))} {
		if err := h.advance(1, Chain{5, hash("a")}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// brokenChain is a store that fails, or has other records than it is asked for.
type brokenChain struct {
	*chainStore
	ends, reads error
	other       []Record
}

func (s *brokenChain) ReceiptEnds(ctx context.Context) (Checkpoint, Chain, error) {
	first, end, _ := s.chainStore.ReceiptEnds(ctx)
	return first, end, s.ends
}

func (s *brokenChain) ReceiptRecords(context.Context, int64, int) ([]Record, error) {
	return s.other, s.reads
}

func TestAHeadThatCannotBeComparedIsAnError(t *testing.T) {
	t.Parallel()
	hash := func(c string) string { return strings.Repeat(c, 64) }
	broken := errors.New("the store is broken")
	noted := Chain{5, hash("a")}
	chain := &chainStore{end: Chain{9, hash("a")}}
	for name, tt := range map[string]struct {
		s    *brokenChain
		says string
	}{
		"no ends":        {&brokenChain{chainStore: chain, ends: broken}, "the store is broken"},
		"no records":     {&brokenChain{chainStore: chain, reads: broken}, "the store is broken"},
		"none is there":  {&brokenChain{chainStore: chain}, "receipt 5"},
		"another number": {&brokenChain{chainStore: chain, other: []Record{{Seq: 6, Hash: hash("a")}}}, "receipt 5"},
		"another hash":   {&brokenChain{chainStore: chain, other: []Record{{Seq: 5, Hash: hash("b")}}}, "receipt 5"},
		"too short":      {&brokenChain{chainStore: &chainStore{end: Chain{3, hash("a")}}}, "receipt 4 does not fit: it and all up to 5"},
	} {
		if err := noted.checkStored(t.Context(), tt.s); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := noted.checkStored(t.Context(), &brokenChain{chainStore: chain, other: []Record{{Seq: 5, Hash: hash("a")}}}); err != nil {
		t.Error(err)
	}
}

func TestAHeadThatCannotBeReadIsAnErrorAndAnEmptyOneIsNone(t *testing.T) {
	t.Parallel()
	store := &chainStore{}
	folder := t.TempDir()
	if err := (&Head{path: folder}).Check(t.Context(), store); err == nil {
		t.Error("a head that cannot be read passes for none")
	}
	empty := filepath.Join(folder, "head")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Head{path: empty}).Check(t.Context(), store); err != nil {
		t.Errorf("an empty head: %v", err)
	}
}

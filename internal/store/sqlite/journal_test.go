package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// If a process is killed after a commit and before it empties its journal, its receipts
// are in both.
func TestAReceiptOfAJournalIsAppendedOnce(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	entry := func(journal string, n int64, call string) *receipt.Draft {
		return &receipt.Draft{Receipt: toolroom.Receipt{ID: call}, Journal: journal, Entry: n}
	}
	for _, group := range [][]*receipt.Draft{
		{entry("j", 1, "a"), entry("j", 2, "b")},
		{entry("j", 1, "a"), entry("j", 2, "b"), entry("j", 3, "c")},
		{entry("k", 1, "d")},
		{{Receipt: toolroom.Receipt{ID: "e"}}},
		{entry("j", 3, "c")},
		nil,
	} {
		if err := s.AppendReceipts(t.Context(), group); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want ...string) {
		t.Helper()
		list, err := s.Receipts(t.Context(), toolroom.ReceiptQuery{AfterSeq: toolroom.ReceiptsFromStart})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range list {
			got = append(got, r.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if _, err := s.VerifyReceipts(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	check("a", "b", "c", "d", "e")
	if err := s.ForgetJournals(t.Context(), func(name string) bool { return name == "k" }); err != nil {
		t.Fatal(err)
	}
	for _, again := range []*receipt.Draft{entry("k", 1, "f"), entry("j", 2, "b")} {
		if err := s.AppendReceipts(t.Context(), []*receipt.Draft{again}); err != nil {
			t.Fatal(err)
		}
	}
	check("a", "b", "c", "d", "e", "f")
}

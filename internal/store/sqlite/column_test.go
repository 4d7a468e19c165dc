package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/token"
)

func TestTimesBeyondWhatIsStoredKeepTheirOrder(t *testing.T) {
	t.Parallel()
	var before int64
	for i, at := range []time.Time{
		time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(2262, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		now := nanosOf(at)
		if i > 0 && now <= before {
			t.Errorf("%s is stored as %d, no later than the one before, %d", at, now, before)
		}
		before = now
	}
	if nanosOf(time.Time{}) != 0 {
		t.Error("no time is one")
	}
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Now()
	if err := s.CreateToken(t.Context(), &token.Token{ID: "a", Hash: []byte{1}, Created: now, Expires: now.AddDate(280, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Token(t.Context(), "a"); err != nil || got.Expires.Before(now.AddDate(200, 0, 0)) {
		t.Errorf("a token for 280 years: %+v, %v", got, err)
	}
	if err := s.AppendReceipts(t.Context(), []*receipt.Draft{{Receipt: toolroom.Receipt{ID: "c", Started: now}}}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Receipts(t.Context(), toolroom.ReceiptQuery{Since: time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil || len(list) != 1 {
		t.Errorf("of a thousand years: %d receipts, %v", len(list), err)
	}
}

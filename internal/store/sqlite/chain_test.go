package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

func TestReceiptsOfVersionsVerify(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	d := &receipt.Draft{Receipt: toolroom.Receipt{ID: "call_1", Tool: "fn:half", Release: &toolroom.Release{Version: 2}}}
	if err := s.AppendReceipts(t.Context(), []*receipt.Draft{d}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.VerifyReceipts(t.Context(), nil); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// A home counts the migrations that it has, so a new one must come after all others.
func TestMigrationsHaveOneOrder(t *testing.T) {
	t.Parallel()
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "_")
		if seen[number] {
			t.Errorf("two migrations have the number %s", number)
		}
		seen[number] = true
	}
}

package receipt_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
)

func TestEachReceiptIsOneLineAlsoAfterTheFileWasMovedAway(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls.log")
	l, err := receipt.OpenLines(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l.Write([]*toolroom.Receipt{{ID: "1", Preview: "two\nlines"}, {ID: "2", Arguments: json.RawMessage("{\n}")}})
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	l.Write([]*toolroom.Receipt{{ID: "3"}})
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Write([]*toolroom.Receipt{{ID: "4"}})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{path + ".1": "1 2 3", path: "4"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for line := range strings.Lines(string(text)) {
			var r toolroom.Receipt
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Errorf("%q: %v", line, err)
			}
			ids = append(ids, r.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s has %q, want %q", filepath.Base(name), got, want)
		}
	}
}

func TestALogThatIsClosedIsNotOpenedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls.log")
	l, err := receipt.OpenLines(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	var reopening sync.WaitGroup
	reopening.Go(func() {
		if err := l.Reopen(); err != nil {
			t.Error(err)
		}
	})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	reopening.Wait()
	if err := l.Reopen(); err != nil {
		t.Error(err)
	}
	l.Write([]*toolroom.Receipt{{ID: "late"}})
	if text, err := os.ReadFile(path); err != nil || len(text) > 0 {
		t.Errorf("the closed log has %q, %v", text, err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestAFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	var told, lines bytes.Buffer
	receipt.LinesTo(&lines, slog.New(slog.NewTextHandler(&told, nil))).Write([]*toolroom.Receipt{{ID: "1"}})
	if lines.Len() == 0 || told.Len() > 0 {
		t.Errorf("wrote %q, told %q", &lines, &told)
	}
	l := receipt.LinesTo(broken{}, slog.New(slog.NewTextHandler(&told, nil)))
	for range 3 {
		l.Write([]*toolroom.Receipt{{ID: "1"}})
	}
	if n := strings.Count(told.String(), "no space"); n != 1 {
		t.Errorf("told %d times: %s", n, &told)
	}
}

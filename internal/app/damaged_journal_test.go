package app_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/app"
)

// The next process removes the journal, so this is the only trace of the receipts.
func TestReceiptsThatADamagedJournalHasLostAreWarnedOf(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	journals := filepath.Join(home, "receipts.journal")
	if err := os.Mkdir(journals, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(journals, "2147483647-1.x.0"), []byte("1 {\n\x00\x00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	open(t, app.Options{Home: home, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if !strings.Contains(log.String(), "journal is damaged") || !strings.Contains(log.String(), "lines=2") {
		t.Errorf("the log says %q", log.String())
	}
}

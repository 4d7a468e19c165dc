package app

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/store/sqlite"
)

// fullStore is a store on a full disk.
type fullStore struct{ *sqlite.Store }

func (fullStore) FreeSpace() (int64, error) { return math.MaxInt64, nil }

func (fullStore) AppendReceipts(context.Context, []*receipt.Draft) error {
	return errors.New("the disk is full")
}

func TestReceiptsCanBeReadWhileNoneCanBeWritten(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.AppendReceipts(t.Context(), []*receipt.Draft{{Receipt: toolroom.Receipt{ID: "call_before", Tool: "a:b"}}}); err != nil {
		t.Fatal(err)
	}
	a := &App{store: store, recorder: receipt.NewRecorder(fullStore{store}, receipt.RecorderOptions{}), log: slog.New(slog.DiscardHandler)}
	if err := a.recorder.Append(t.Context(), &receipt.Draft{Receipt: toolroom.Receipt{ID: "call_after", Tool: "a:b"}}); err != nil {
		t.Fatal(err)
	}
	if list, err := a.Receipts(t.Context(), toolroom.ReceiptQuery{}); err != nil || len(list) != 1 {
		t.Errorf("%d receipts, %v", len(list), err)
	}
	if r, err := a.Receipt(t.Context(), "call_before"); err != nil || r.ID != "call_before" {
		t.Errorf("%+v, %v", r, err)
	}
	n := 0
	err = a.ReceiptSamples(t.Context(), toolroom.ReceiptQuery{}, func(receipt.Sample) bool { n++; return true })
	if err != nil || n != 1 {
		t.Errorf("%d samples, %v", n, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = a.recorder.Close(ended)
}
